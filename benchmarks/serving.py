"""SavedModels that take raw text, beside the pipeline of transformers.

All have the same weights: exports of one run of run_classifier.py on MRPC, and
its checkpoint converted by convert_checkpoint.py. Workers are warm and take
turns, so that what else runs on the machine meets them alike:

  python -m benchmarks.serving --data_dir=MRPC --float32=saved \
    --bfloat16=saved_bfloat16 --hugging_face=folder --peer_python=.../python

Prints medians at batch 1 and texts a second at batch 32, each with its ratio
to the pipeline of the same type, and the peak memory of the process. Labels
that differ are counted.
"""

import os
import statistics
import sys

from absl import app, flags

from benchmarks.turns import Worker
from data.tasks import glue, text_task

FLAGS = flags.FLAGS

flags.DEFINE_string("data_dir", None, "Folder of MRPC.", required=True)
flags.DEFINE_string("float32", None, "A SavedModel.", required=True)
flags.DEFINE_string("bfloat16", None, "One exported with --dtype=bfloat16.")
flags.DEFINE_string("hugging_face", None, "Folder of the peer.", required=True)
flags.DEFINE_string("peer_python", sys.executable, "Python that has torch.")
flags.DEFINE_integer("examples", 128, "Pairs of a turn.", 1)
flags.DEFINE_integer("rounds", 5, "Turns of each worker.", 1)
flags.DEFINE_integer("num_threads", 2, "Of a worker.", 1)

BATCHES = (1, 32)
PEER = "transformers"


def main(_):
  workers = {key: Worker(command) for key, command in commands().items()}
  pairs = examples()
  for worker in workers.values():
    for size in BATCHES:
      # What comes once comes now.
      worker.ask(pairs=pairs[:size], batch_size=size)
  seconds = {(key, size): [] for key in workers for size in BATCHES}
  said, peaks = {}, {}
  print(f"{len(pairs)} pairs, load {os.getloadavg()[0]:.1f} before")
  for _ in range(FLAGS.rounds):
    for size in BATCHES:
      for key, worker in workers.items():
        found = worker.ask(pairs=pairs, batch_size=size)
        full = found["seconds"][: len(pairs) // size or 1]
        seconds[key, size] += full
        said[key], peaks[key] = found["labels"], found["peak"]
  print(f"load {os.getloadavg()[0]:.1f} after")
  report(seconds, said, peaks)
  for worker in workers.values():
    worker.close()


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
  """Pairs of the dev set, in its order."""
  found = text_task.read(glue.find("MRPC"), FLAGS.data_dir, "dev")
  return [[one.text_a, one.text_b] for one in found[: FLAGS.examples]]


def report(seconds, said, peaks) -> None:
  """Prints the table and how many labels differ."""
  print("| | ms at batch 1 | ratio | texts/s at batch 32 | ratio | peak MB |")
  print("|---|---|---|---|---|---|")
  medians = {key: statistics.median(values) for key, values in seconds.items()}
  for library, dtype in said:
    cells = []
    for size in BATCHES:
      own = medians[(library, dtype), size]
      ratio = own / medians[(PEER, dtype), size]
      if size == 1:
        cells += [f"{1000 * own:.1f}", f"{ratio:.2f}"]
      else:
        cells += [f"{size / own:.0f}", f"{1 / ratio:.2f}"]
    peak = f"{peaks[library, dtype]:.0f}"
    print(f"| {library}, {dtype} | {' | '.join(cells)} | {peak} |")
  for (library, dtype), labels in said.items():
    pairs = zip(labels, said[PEER, "float32"], strict=True)
    print(f"{library}, {dtype}: {sum(a != b for a, b in pairs)} labels differ")


if __name__ == "__main__":
  app.run(main)
