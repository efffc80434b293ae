"""The most memory that a process needs, in training steps and making records.

  python -m benchmarks.memory --cases=mini:32:128:float32 --sizes=5,50 \
    --peer_python=torch/bin/python --vocab_file=vocab.txt

Of a program with several processes the largest one counts. Each is started
once: from run to run memory hardly differs. Peers make records of the first
text only; some take minutes for it.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from absl import app, flags

from benchmarks import pretraining_data, train_step
from benchmarks.published import Table
from benchmarks.train_step_data import Case

FLAGS = flags.FLAGS
flags.DEFINE_list("sizes", ["5", "50"], "Megabytes of the made-up texts.")


def main(_):
  TABLE.report(results())


def results() -> Iterator[dict]:
  """The peaks in MB of everyone in each case."""
  for text in FLAGS.cases:
    yield {"case": text, "peaks": steps(Case.named(text, FLAGS.num_threads))}
  for size in FLAGS.sizes:
    is_first = size == FLAGS.sizes[0]
    yield {"case": f"records of {size} MB", "peaks": records(size, is_first)}


def steps(case: Case) -> dict[str, float]:
  """Of three training steps."""
  found = {}
  for who in (train_step.OURS, *FLAGS.peers):
    worker = train_step.start(who, case)
    found[train_step.NAMES[who]] = worker.ask(steps=3)["peak"]
    worker.close()
  return found


def records(megabytes: str, with_peer: bool) -> dict[str, float]:
  """Of every way of making records of so much text."""
  found = {}
  with tempfile.TemporaryDirectory() as folder:
    text = Path(folder, "text.txt")
    text.write_text(pretraining_data.make_text(int(megabytes) * 10**6))
    for way, command in pretraining_data.WAYS.items():
      if with_peer or way != pretraining_data.PEER:
        usage = pretraining_data.run(text, command, Path(folder))
        found[way] = usage.peak
  return found


def rows(result: dict):
  """A row for everyone."""
  peaks = result["peaks"]
  ours = next(iter(peaks.values()))
  for who, peak in peaks.items():
    yield result["case"], who, f"{peak:.0f}", f"{peak / ours:.2f}"


TABLE = Table("memory", ("case", "who", "peak MB", "ratio"), rows)

if __name__ == "__main__":
  app.run(main)
