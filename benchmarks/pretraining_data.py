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
import time
from pathlib import Path
from random import Random

from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("vocab_file", None, "Uncased vocabulary.", required=True)
flags.DEFINE_string("input_file", None, "Text; default: one is made.")
flags.DEFINE_integer("runs", 7, "The median of so many is reported.", 1)
flags.DEFINE_string("output_json", None, "Where results go as JSON.")

# The original at commit eedf571, TensorFlow 1.15.5, Python 3.7, one core of a
# shared Intel Xeon: 5.00 MB of text, 921 thousand tokens, dupe_factor 1, in
# 15.8 s with start-up. Measured once, when its golden records were made.
ORIGINAL_SECONDS, ORIGINAL_MB = 15.8, 5.00

OURS = [str(Path(__file__).parents[1] / "create_pretraining_data.py")]
WAYS = {
  "one process": [*OURS, "--dupe_factor=1", "--overwrite"],
  "two workers": [*OURS, "--dupe_factor=1", "--num_workers=2", "--overwrite"],
  "dynamic masking": [*OURS, "--masking=dynamic", "--overwrite"],
  "tf-models-official": [
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


def make_text(size: int = 5_000_000) -> str:
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


def run(text: Path, command: list[str], folder: Path) -> float:
  """Runs a program once; returns the seconds it takes."""
  begin = time.perf_counter()
  subprocess.run(
    [
      sys.executable,
      *command,
      f"--input_file={text}",
      f"--vocab_file={FLAGS.vocab_file}",
      f"--output_file={folder / 'out.tfrecord'}",
    ],
    capture_output=True,
    check=True,
  )
  return time.perf_counter() - begin


def main(_):
  """Runs every way of making records and prints a table."""
  with tempfile.TemporaryDirectory() as folder:
    text = Path(FLAGS.input_file or f"{folder}/text.txt")
    if not FLAGS.input_file:
      text.write_text(make_text())
    seconds = {name: [] for name in WAYS}
    for _ in range(FLAGS.runs):
      for name, command in WAYS.items():
        seconds[name].append(run(text, command, Path(folder)))
    megabytes = text.stat().st_size / 1e6
  original = ORIGINAL_SECONDS / ORIGINAL_MB * megabytes
  print("| | s | MB/s | times the original | times tf-models-official |")
  print("|---" * 5 + "|")
  for name, own in seconds.items():
    middle = statistics.median(own)
    ratios = [
      theirs / ours
      for theirs, ours in zip(seconds["tf-models-official"], own, strict=True)
    ]
    print(
      f"| {name} | {middle:.2f} | {megabytes / middle:.2f} "
      f"| {original / middle:.1f} | {statistics.median(ratios):.1f} |"
    )
  if FLAGS.output_json:
    Path(FLAGS.output_json).write_text(json.dumps(seconds, indent=2) + "\n")


if __name__ == "__main__":
  app.run(main)
