"""How time and memory of our training step grow with each of its sizes.

  python -m benchmarks.growth --base=4x256:16:128:float32

Each row changes one size of the base. "expected" is how much more than the
base the matrix products of the step are, "measured" how much longer it takes:
the median over rounds in which all sizes took turns.
"""

import statistics
from collections.abc import Iterator

from absl import app, flags

from benchmarks import train_step
from benchmarks.published import Table
from benchmarks.spread import ratios
from benchmarks.train_step_data import Case

FLAGS = flags.FLAGS
flags.DEFINE_string(
  "base", "4x256:16:128:float32", "layers x hidden:batch:length:type."
)
flags.DEFINE_list("layers", ["2", "4", "8"], "Numbers of layers.")
flags.DEFINE_list("hidden", ["128", "256", "512"], "Hidden sizes.")
flags.DEFINE_list("batches", ["8", "16", "32"], "Batch sizes.")
flags.DEFINE_list("lengths", ["64", "128", "256", "512"], "Lengths.")
flags.DEFINE_integer("steps", 6, "Steps that are timed.", 1)


def main(_):
  TABLE.report([{"case": FLAGS.base, "sizes": sizes()}])


def sizes() -> list[dict]:
  """Seconds and memory of a step of each size."""
  found = [
    {"name": name, "seconds": [], "operations": case.operations}
    for name, case in cases()
  ]
  for _ in range(FLAGS.rounds):
    for size, (_, case) in zip(found, cases(), strict=True):
      seconds, size["peak"] = measure(case)
      size["seconds"].append(seconds)
  return found


def rows(result: dict):
  """A row for each size."""
  base = result["sizes"][0]
  for size in result["sizes"]:
    yield (
      size["name"],
      f"{1000 * statistics.median(size['seconds']):.0f}",
      *ratios(size["seconds"], base["seconds"]),
      f"{size['operations'] / base['operations']:.2f}",
      f"{size['peak']:.0f}",
    )


def cases() -> Iterator[tuple[str, Case]]:
  """The base, and what differs from it in one size."""
  size, batch, length, dtype = FLAGS.base.split(":")
  layers, hidden = size.split("x")
  numbers = {
    "layers": layers,
    "hidden": hidden,
    "batch": batch,
    "length": length,
  }
  wanted = {
    "layers": FLAGS.layers,
    "hidden": FLAGS.hidden,
    "batch": FLAGS.batches,
    "length": FLAGS.lengths,
  }

  def case(layers, hidden, batch, length):
    size = f"{layers}x{hidden}"
    return Case(size, int(batch), int(length), dtype, FLAGS.num_threads)

  yield FLAGS.base, case(**numbers)
  for name, values in wanted.items():
    for value in values:
      if value != numbers[name]:
        yield f"{name} {value}", case(**numbers | {name: value})


def measure(case: Case) -> tuple[float, float]:
  """Seconds of a step, and the peak of memory in MB."""
  worker = train_step.start(train_step.OURS, case)
  worker.ask(steps=3)
  answer = worker.ask(steps=FLAGS.steps)
  worker.close()
  return statistics.median(answer["seconds"]), answer["peak"]


TABLE = Table(
  "growth",
  ("what", "ms", "measured", "range", "expected", "peak MB"),
  rows,
)

if __name__ == "__main__":
  app.run(main)
