"""Records a second that the input pipeline delivers, without a model.

  python -m benchmarks.reading --vocab_file=vocab.txt --input_file=text.txt

Makes records of the text, masked once and to be masked anew, and reads them as
run_pretraining.py does.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from absl import app, flags

from benchmarks.published import Table
from data import vocab
from data.pretraining.reading import Masking, PretrainingInput

FLAGS = flags.FLAGS
flags.DEFINE_string("vocab_file", None, "Uncased vocabulary.", required=True)
flags.DEFINE_string("input_file", None, "Text.", required=True)
flags.DEFINE_integer("batch_size", 32, "Records of a batch.", 1)
flags.DEFINE_integer("batches", 500, "Read each time.", 1)
flags.DEFINE_integer("rounds", 5, "Turns.", 1)

ROOT = Path(__file__).parents[1]


def main(_):
  with tempfile.TemporaryDirectory() as folder:
    TABLE.report(results(folder))


def results(folder: str) -> Iterator[dict]:
  """Records a second in each round, by when they are masked."""
  sources = {how: source(how, folder) for how in ("static", "dynamic")}
  rates = {how: [] for how in sources}
  for number in range(FLAGS.rounds):
    for how, found in sources.items():
      rates[how].append(rate(found, seed=number))
  for how, found in rates.items():
    text = Path(FLAGS.input_file).stem
    yield {"case": f"{text}, {how}", "rates": found}


def rows(result: dict):
  """The row of a case."""
  rates = result["rates"]
  yield (
    result["case"],
    f"{statistics.median(rates):,.0f}",
    f"{min(rates):,.0f} to {max(rates):,.0f}",
  )


def source(masking: str, folder: str) -> PretrainingInput:
  """Records of the text."""
  path = f"{folder}/{masking}.tfrecord"
  command = [
    sys.executable,
    str(ROOT / "create_pretraining_data.py"),
    f"--input_file={FLAGS.input_file}",
    f"--vocab_file={FLAGS.vocab_file}",
    f"--output_file={path}",
    f"--masking={masking}",
    "--dupe_factor=1",
  ]
  subprocess.run(command, check=True, capture_output=True)
  size = len(vocab.load(FLAGS.vocab_file))
  return PretrainingInput([path], 128, 20, size, Masking(FLAGS.vocab_file))


def rate(found: PretrainingInput, seed: int) -> float:
  """Records a second, after the first batch."""
  batches = iter(found.training(FLAGS.batch_size, seed).take(FLAGS.batches + 1))
  next(batches)
  begin = time.perf_counter()
  for _ in batches:
    pass
  return FLAGS.batches * FLAGS.batch_size / (time.perf_counter() - begin)


TABLE = Table("reading", ("text, masking", "records/s", "range"), rows)

if __name__ == "__main__":
  app.run(main)
