"""Times create_pretraining_data.py as a whole, start-up and all.

  python -m benchmarks.pretraining_data --vocab_file=vocab.txt

Without --input_file the text is one like that on which the original was timed:
5 MB, sentences drawn again and again from 3,000, 5 to 20 per document. A text
of your own tells more: in this one all words are soon known by heart. The
program of tf-models-official does the same beside ours, in turns.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from absl import app, flags

from benchmarks.published import Table
from benchmarks.spread import ratios

FLAGS = flags.FLAGS
flags.DEFINE_string("vocab_file", None, "Uncased vocabulary.", required=True)
flags.DEFINE_string("input_file", None, "Text; default: one is made.")
flags.DEFINE_integer("runs", 7, "The median of so many is reported.", 1)
flags.DEFINE_integer("megabytes", 5, "Of the text that is made.", 1)

# The original at commit eedf571, TensorFlow 1.15.5, Python 3.7, one core of a
# shared Intel Xeon: 5.00 MB of text, 921 thousand tokens, dupe_factor 1, in
# 15.8 s with start-up. Measured once, when its golden records were made.
ORIGINAL_SECONDS, ORIGINAL_MB = 15.8, 5.00

OURS = [str(Path(__file__).parents[1] / "create_pretraining_data.py")]
PEER = "tf-models-official"
WAYS = {
  "one process": [*OURS, "--dupe_factor=1", "--overwrite"],
  "two workers": [*OURS, "--dupe_factor=1", "--num_workers=2", "--overwrite"],
  "dynamic masking": [*OURS, "--masking=dynamic", "--overwrite"],
  PEER: [
    *("-m", "official.nlp.data.create_pretraining_data"),
    "--dupe_factor=1",
  ],
}


# Words to make sentences of, and what longer ones are put together from.
WORDS = """
the of and to in a is that for it was on with as he be at by his this had not
are but from or have an they which one you were her all she there would their
we him been has when who will more no if out so said what up its about into
than them can only other new some could time these two may then do first any
my now such like our over man me even most made after also did many before
must through back years where much your way well down should because each just
those people too little state good very make world still own see men work long
get here between both life being under never day same another know while last
might us great old year off come since against go came right used take three
house water river city market captain garden winter letter morning evening
"""
ONSETS = "b br c ch d f fl g h j l m n p pr r s st t tr v w"
RHYMES = "able ack ain ate ear ell ent ight ing ious ock ory"


def make_text(size: int) -> str:
  """Makes sentences of English-like words, the same every time."""
  rng = Random(1)
  common, onsets, rhymes = (s.split() for s in (WORDS, ONSETS, RHYMES))
  rare = [first + last for first in onsets for last in rhymes]
  sentences = []
  for _ in range(3000):
    words = [
      rng.choice(common if rng.random() < 0.95 else rare)
      for _ in range(rng.randint(14, 48))
    ]
    words[rng.randrange(len(words) - 1)] += ","
    sentences.append(" ".join(words).capitalize() + ".\n")
  documents, length = [], 0
  while length < size:
    documents.append("".join(rng.choices(sentences, k=rng.randint(5, 20))))
    length += len(documents[-1]) + 1
  return "\n".join(documents)[:size]


class Usage(NamedTuple):
  """What a program took.

  Attributes:
    seconds: by the clock.
    peak: most memory of one of its processes, in MB.
  """

  seconds: float
  peak: float


# Runs a command and says what it took. A process of its own, for the memory of
# whoever starts a program counts as that of the program.
WATCH = """
import json, resource, subprocess, sys, time
begin = time.perf_counter()
status = subprocess.run(sys.argv[2:], stdout=2).returncode
seconds = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
json.dump([seconds, peak], open(sys.argv[1], "w"))
sys.exit(status)
"""


def run(text: Path, command: list[str], folder: Path) -> Usage:
  """Runs a program once; CalledProcessError with its log if it fails."""
  usage = folder / "usage.json"
  subprocess.run(
    [
      *(sys.executable, "-c", WATCH, usage, sys.executable, *command),
      f"--input_file={text}",
      f"--vocab_file={FLAGS.vocab_file}",
      f"--output_file={folder / 'out.tfrecord'}",
    ],
    capture_output=True,
    check=True,
  )
  return Usage(*json.loads(usage.read_text()))


def main(_):
  with tempfile.TemporaryDirectory() as folder:
    TABLE.report(results(Path(folder)))


def results(folder: Path) -> Iterator[dict]:
  """The one result: seconds of every way of making records."""
  name, text = "made-up", folder / "text.txt"
  if FLAGS.input_file:
    name, text = Path(FLAGS.input_file).stem, Path(FLAGS.input_file)
  else:
    text.write_text(make_text(FLAGS.megabytes * 10**6))
  seconds = {way: [] for way in WAYS}
  for _ in range(FLAGS.runs):
    for way, own in seconds.items():
      own.append(run(text, WAYS[way], folder).seconds)
  megabytes = text.stat().st_size / 1e6
  case = f"{name}, {megabytes:.0f} MB"
  yield {"case": case, "megabytes": megabytes, "seconds": seconds}


def rows(result: dict):
  """A row for every way."""
  megabytes, seconds = result["megabytes"], result["seconds"]
  original = ORIGINAL_SECONDS / ORIGINAL_MB * megabytes
  for way, own in seconds.items():
    middle = statistics.median(own)
    yield (
      result["case"],
      way,
      f"{middle:.2f}",
      f"{megabytes / middle:.2f}",
      f"{original / middle:.1f}",
      *ratios(seconds[PEER], own, digits=1),
    )


TABLE = Table(
  "pretraining_data",
  (
    *("text", "way", "s", "MB/s", "times the original"),
    *("times tf-models-official", "range"),
  ),
  rows,
)

if __name__ == "__main__":
  app.run(main)
