"""Floating-point operations of pre-training, and what others needed for it.

  python -m benchmarks.flops

Multiplications and additions of the matrix products in the program that XLA
gets for a step with a batch of one, in the plain form; beside them throughputs
that others published of their programs.
"""

import math
import re

from benchmarks import cases, contest
from benchmarks.results import Table

# Steps of 256 sequences of the original's schedule (paper, section A.2).
STEPS = {"128": 900_000, "512": 100_000}
TPU_CHIPS = {"base": 16, "large": 64}  # which took four days (paper)
# Sequences a second and device of large by length: BERT for TensorFlow 2 in
# NVIDIA's DeepLearningExamples, container 21.02, mixed precision, LAMB.
PUBLISHED = {
  "V100": {"128": 3529 / 16, "512": 678 / 16},
  "A100 of 80 GB": {"128": 3804 / 8, "512": 750 / 8},
}
DEVICES = (8, 16, 64)


def count(case: cases.Case) -> int:
  """Operations in the `dot` instructions of a step's HLO."""
  import tensorflow as tf  # noqa: PLC0415

  from benchmarks.workers import train_bert_tf2  # noqa: PLC0415
  from modeling import tracing  # noqa: PLC0415

  with tracing.mode(fused=False):
    step = train_bert_tf2.make_train_step(case)._step
    fields = {k: tf.constant(v) for k, v in cases.batch(case).items()}
    program = tf.function(step, jit_compile=True)
    hlo = program.experimental_get_compiler_ir(fields)(stage="hlo")
  dots = re.findall(  # such as f32[2,5] dot(f32[2,3] %a, ...
    r"\[(.*?)\]\S* dot\(\w+\[(.*?)\].*lhs_contracting_dims=\{(.*?)\}", hlo
  )
  total = 0
  for texts in dots:
    result, left, summed = ([int(n) for n in t.split(",")] for t in texts)
    total += 2 * math.prod(result) * math.prod(left[axis] for axis in summed)
  return total


def measure(args: contest.Args) -> contest.Results:
  for size in args.sizes:
    steps = {n: cases.Case.parse(f"{size}:1:{n}:float32") for n in STEPS}
    yield {"case": size, "flops": {n: count(case) for n, case in steps.items()}}


def rows(result: dict):
  size, flops = result["case"], result["flops"]
  sequences = {n: 256 * steps for n, steps in STEPS.items()}
  total = sum(flops[n] * sequences[n] for n in STEPS)
  lengths = _list(f"{flops[n] / 1e9:.1f}" for n in STEPS)
  head = size, lengths, f"{total / 1e18:.1f}"
  if size in TPU_CHIPS:
    hours = 4 * 24 * TPU_CHIPS[size]
    speed = f"{total / hours / 3.6e15:.1f}"
    yield *head, "TPU chip (the paper)", "", speed, *_times(hours)
  for name, published in PUBLISHED.items():
    # As many operations a second as of large.
    speeds = {
      n: rate * cases.Case.parse(f"large:1:{n}:float32").operations
      for n, rate in published.items()
    }
    rates = {n: speeds[n] / flops[n] for n in STEPS}
    hours = sum(sequences[n] / rates[n] for n in STEPS) / 3600
    yield (
      *head,
      name + ", assumed" * (size != "large"),
      _list(f"{rate:,.0f}" for rate in rates.values()),
      _list(f"{speed / 1e12:.0f}" for speed in speeds.values()),
      *_times(hours),
    )


def _times(hours):
  return f"{hours:,.0f}", _list(f"{hours / 24 / n:.2g}" for n in DEVICES)


_list = ", ".join
TABLE = Table(
  "flops",
  "model | GFLOP a sequence of 128, 512 tokens | EFLOP of the schedule | "
  "device | sequences a second | TFLOP/s | device hours | "
  f"days on {_list(map(str, DEVICES))}",
  rows,
  contest.ROOT / "docs" / "data_at_scale.md",
)


if __name__ == "__main__":
  contest.run(TABLE, measure, sizes=(["base", "large"], "models"))
