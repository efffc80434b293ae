"""Times pre-training steps of `modeling` on Keras' JAX backend.

Forward, masked-LM and next-sentence loss, backward, clipped AdamW, with
dropout, on made-up batches; on a GPU where JAX sees one, else on the CPU:

  python -m benchmarks.jax_train_step --sizes=base,large --lengths=128,512 \
    --batch_size=64 --output_json=steps.jsonl

Needs jax, keras, numpy and absl-py; no TensorFlow. Prints the median of the
steps, examples a second, and MFU: the step's floating-point operations by
`Case.operations` of benchmarks/train_step_data.py, over what the device could
do in that time by its data sheet.
"""

import json
import statistics
import time

from benchmarks import jax_training  # before keras

# isort: split
import jax
import keras
import numpy as np
from absl import app, flags

from benchmarks import train_step_data
from benchmarks.train_step_data import Case
from modeling import losses, models
from modeling.config import BertConfig

FLAGS = flags.FLAGS

flags.DEFINE_list("sizes", ["base", "large"], "tiny, mini, small, ...")
flags.DEFINE_list("lengths", ["128", "512"], "Tokens of a sequence.")
flags.DEFINE_integer("batch_size", 32, "Sequences a step.", 1)
flags.DEFINE_enum(
  "dtype",
  "bfloat16",
  ["float32", "bfloat16"],
  "Of activations; variables stay float32.",
)
flags.DEFINE_integer("steps", 20, "How many are timed, after three others.", 1)
flags.DEFINE_float(
  "peak_tflops", None, "Of the device in --dtype; default: by its data sheet."
)
flags.DEFINE_string("output_json", None, "Results are added here, one a line.")

# Dense bfloat16 matrix products, 10^12 a second, by the makers' data sheets:
# nvidia.com for H200, H100 (SXM), A100 and L4, where sheets that count
# structured sparsity say twice as much; cloud.google.com/tpu/docs for TPUs.
PEAKS = {
  "NVIDIA H200": 989.5,
  "NVIDIA H100 80GB HBM3": 989.5,
  "NVIDIA A100-SXM4-40GB": 312.0,
  "NVIDIA A100-SXM4-80GB": 312.0,
  "NVIDIA L4": 121.0,
  "TPU v4": 275.0,
  "TPU v5 lite": 197.0,
  "TPU v5p": 459.0,
}
_WARM_UP = 3


def measure(size: str, length: int) -> dict:
  """Builds, compiles and times one size at one length."""
  case = Case(size, FLAGS.batch_size, length, FLAGS.dtype)
  config = BertConfig.preset(size)
  config.check_length(length)
  model = models.pretrainer(config)
  do_step = jax_training.step_function(
    model, losses.pretraining(), jax_training.Adam()
  )
  state = jax_training.begin(model)
  batch = jax.device_put(train_step_data.batch(case))
  start = time.perf_counter()
  compiled = jax.jit(do_step, donate_argnums=0).lower(state, batch).compile()
  compiling = time.perf_counter() - start
  seconds, first, last = [], None, None
  for _ in range(_WARM_UP + FLAGS.steps):
    start = time.perf_counter()
    state, told = jax.block_until_ready(compiled(state, batch))
    seconds.append(time.perf_counter() - start)
    last = float(told["loss"])
    first = last if first is None else first
  if not np.isfinite(last):
    raise FloatingPointError(f"{size} at {length}: the loss is {last}")
  seconds = seconds[_WARM_UP:]
  found = rates(case, statistics.median(seconds))
  return {
    "size": size,
    "length": length,
    "batch_size": FLAGS.batch_size,
    "dtype": FLAGS.dtype,
    **found,
    "seconds": seconds,
    "seconds_to_compile": compiling,
    "losses": [first, last],
    **surroundings(),
  }


def rates(case: Case, seconds: float) -> dict:
  """What a step of so many seconds means; `mfu` is None without a peak."""
  flops = case.operations
  peak = FLAGS.peak_tflops
  if peak is None and FLAGS.dtype == "bfloat16":
    peak = PEAKS.get(jax.devices()[0].device_kind)
  return {
    "ms": 1e3 * seconds,
    "examples_per_second": FLAGS.batch_size / seconds,
    "tflop": flops / 1e12,
    "tflop_per_second": flops / 1e12 / seconds,
    "peak_tflops": peak,
    "mfu": flops / 1e12 / seconds / peak if peak else None,
  }


def surroundings() -> dict:
  """Where it ran."""
  device = jax.devices()[0]
  memory = device.memory_stats() or {}
  return {
    "device": device.device_kind,
    "platform": device.platform,
    "peak_bytes": memory.get("peak_bytes_in_use"),
    "jax": jax.__version__,
    "keras": keras.__version__,
  }


def row(found: dict) -> str:
  """A line of the table."""
  mfu = "-" if found["mfu"] is None else f"{found['mfu']:.1%}"
  cells = [
    found["size"],
    str(found["length"]),
    str(found["batch_size"]),
    found["dtype"],
    f"{found['ms']:.1f}",
    f"{found['examples_per_second']:.1f}",
    f"{found['tflop']:.4g}",
    f"{found['tflop_per_second']:.3g}",
    mfu,
  ]
  return f"| {' | '.join(cells)} |"


def main(_):
  if FLAGS.dtype != "float32":
    keras.config.set_dtype_policy(f"mixed_{FLAGS.dtype}")
  print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}")
  header = "size|T|B|dtype|ms a step|examples/s|TFLOP a step|TFLOP/s|MFU"
  print(f"| {header.replace('|', ' | ')} |")
  print("|---" * 9 + "|")
  for size in FLAGS.sizes:
    for length in map(int, FLAGS.lengths):
      found = measure(size, length)
      keras.backend.clear_session()
      print(row(found), flush=True)
      if FLAGS.output_json:
        with open(FLAGS.output_json, "a") as file:
          file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
  app.run(main)
