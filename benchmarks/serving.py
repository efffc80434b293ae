"""SavedModels that take raw text, beside transformers.

All have the same weights: exports of one run of run_classifier.py on MRPC, or
of run_squad.py, and its checkpoint converted by convert_checkpoint.py. Workers
are warm and take turns:

  python -m benchmarks.serving --data=MRPC --float32=saved \
    --bfloat16=saved_bfloat16 --hugging_face=folder --peer_python=.../python

Prints medians at batch 1 and texts a second at batch 32, the medians and ranges
of their ratios to transformers in the same type and round, the peak memory of
the process, and how many answers are not those of transformers in float32.
"""

import itertools
import os
import statistics
import sys
from operator import ne
from pathlib import Path

from absl import app, flags

from benchmarks.published import Table
from benchmarks.spread import ratios
from benchmarks.turns import Worker
from data.tasks import glue, squad, text_task

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "data", None, "Folder of MRPC, or a file of SQuAD.", required=True
)
flags.DEFINE_string("name", None, "What the data are called in the table.")
flags.DEFINE_string("float32", None, "A SavedModel.", required=True)
flags.DEFINE_string("bfloat16", None, "One exported with --dtype=bfloat16.")
flags.DEFINE_string("hugging_face", None, "Folder of the peer.", required=True)
flags.DEFINE_string("peer_python", sys.executable, "Python that has torch.")
flags.DEFINE_integer("examples", 128, "Pairs of a turn.", 1)
flags.DEFINE_integer("rounds", 7, "Turns of each worker.", 1)
flags.DEFINE_integer("num_threads", 2, "Of a worker.", 1)

BATCHES = (1, 32)
PEER = "transformers"


def main(_):
  TABLE.report([measure()])


def measure() -> dict:
  """Seconds a batch of each round, answers that differ, and memory."""
  workers = {key: Worker(command) for key, command in commands().items()}
  pairs = examples()
  for worker in workers.values():
    for size in BATCHES:
      # What comes once comes now.
      worker.ask(pairs=pairs[:size], batch_size=size)
  seconds = {key: {size: [] for size in BATCHES} for key in workers}
  said, peaks = {}, {}
  for _ in range(FLAGS.rounds):
    for size in BATCHES:
      for key, worker in workers.items():
        found = worker.ask(pairs=pairs, batch_size=size)
        full = found["seconds"][: len(pairs) // size or 1]
        seconds[key][size].append(statistics.median(full))
        said[key], peaks[key] = found["labels"], found["peak"]
  for worker in workers.values():
    worker.close()
  reference = said[PEER, "float32"]
  return {
    "case": FLAGS.name or Path(FLAGS.data).stem,
    "pairs": len(pairs),
    "load": os.getloadavg()[0],
    "libraries": [
      {
        "library": library,
        "dtype": dtype,
        # By name: JSON has no other keys.
        "seconds": {str(n): own for n, own in seconds[library, dtype].items()},
        "peak": peaks[library, dtype],
        "differ": sum(map(ne, said[library, dtype], reference)),
      }
      for library, dtype in workers
    ],
  }


def commands() -> dict[tuple[str, str], list[str]]:
  """What starts the workers, by library and type."""
  threads = str(FLAGS.num_threads)
  found = {}
  for dtype in ("float32", "bfloat16"):
    folder = FLAGS[dtype].value
    if not folder:
      continue
    ours = [sys.executable, "-m", "benchmarks.serving_tensorflow", folder]
    peer = [FLAGS.peer_python, "-m", "benchmarks.serving_torch"]
    found["ours", dtype] = [*ours, threads]
    found[PEER, dtype] = [*peer, FLAGS.hugging_face, dtype, threads]
  return found


def examples() -> list[list[str]]:
  """The first pairs of the dev set, in its order."""
  if not FLAGS.data.endswith(".json"):
    found = text_task.read(glue.find("MRPC"), FLAGS.data, "dev")
    return [[one.text_a, one.text_b] for one in found[: FLAGS.examples]]
  pairs = (
    [question["question"], paragraph["context"]]
    for article in squad.articles(FLAGS.data)
    for paragraph in article["paragraphs"]
    for question in paragraph["qas"]
  )
  return list(itertools.islice(pairs, FLAGS.examples))


def rows(result: dict):
  """A row for each library and type."""
  found = {(one["library"], one["dtype"]): one for one in result["libraries"]}
  for (library, dtype), one in found.items():
    cells = [result["case"], f"{library}, {dtype}"]
    for size in BATCHES:
      own = one["seconds"][str(size)]
      theirs = found[PEER, dtype]["seconds"][str(size)]
      middle = statistics.median(own)
      if size == 1:
        cells.append(f"{1000 * middle:.1f}")
        cells += ratios(own, theirs)
      else:
        cells.append(f"{size / middle:.0f}")
        cells += ratios(theirs, own)
    cells += [f"{one['peak']:.0f}", f"{one['differ']} of {result['pairs']}"]
    yield cells


TABLE = Table(
  "serving",
  (
    *("data", "", "ms at batch 1", "ours / theirs", "range"),
    *("texts/s at batch 32", "ours / theirs", "range", "peak MB", "differ"),
  ),
  rows,
  Path(__file__).parents[1] / "docs" / "serving.md",
)

if __name__ == "__main__":
  app.run(main)
