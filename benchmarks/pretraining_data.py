"""Times create_pretraining_data.py as a whole, start-up and all.

  python benchmarks/pretraining_data.py --vocab_file=vocab.txt

Without --input_file the text is one like that on which the original was timed:
5 MB, sentences drawn again and again from 3,000, 5 to 20 per document. A text
of your own tells more: in this one all words are soon known by heart.
"""

import json
import re
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
flags.DEFINE_integer("runs", 3, "The fastest of so many is reported.", 1)
flags.DEFINE_string("output_json", None, "Where results go as JSON.")

# The original at commit eedf571, TensorFlow 1.15.5, Python 3.7, one core of a
# shared Intel Xeon: 5.00 MB of text, 921 thousand tokens, dupe_factor 1, in
# 15.8 s with start-up. Measured once, when its golden records were made.
ORIGINAL_SECONDS, ORIGINAL_MB, ORIGINAL_TOKENS = 15.8, 5.00, 921_000

WAYS = {
  "one process": ["--dupe_factor=1"],
  "two workers": ["--dupe_factor=1", "--num_workers=2"],
  "dynamic masking": ["--masking=dynamic"],
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


def run(text: Path, options: list[str], folder: Path) -> dict[str, float]:
  """Runs the program once."""
  program = Path(__file__).parents[1] / "create_pretraining_data.py"
  command = [
    sys.executable,
    str(program),
    f"--input_file={text}",
    f"--vocab_file={FLAGS.vocab_file}",
    f"--output_file={folder / 'out.tfrecord'}",
    "--overwrite",
    *options,
  ]
  begin = time.perf_counter()
  done = subprocess.run(command, capture_output=True, text=True, check=True)
  seconds = time.perf_counter() - begin
  log = done.stderr.replace(",", "")
  tokens = int(re.search(r"(\d+) tokens", log)[1])
  megabytes = text.stat().st_size / 1e6
  original = ORIGINAL_SECONDS / ORIGINAL_MB * megabytes
  return {
    "seconds": seconds,
    "MB/s": megabytes / seconds,
    "tokens/s": tokens / seconds,
    "records": int(re.search(r"Wrote (\d+) instances", log)[1]),
    "times the original by MB": original / seconds,
    "times the original by tokens": tokens
    / seconds
    / (ORIGINAL_TOKENS / ORIGINAL_SECONDS),
  }


def main(_):
  """Runs every way of making records and prints a table."""
  results = {}
  with tempfile.TemporaryDirectory() as folder:
    text = Path(FLAGS.input_file or f"{folder}/text.txt")
    if not FLAGS.input_file:
      text.write_text(make_text())
    for name, options in WAYS.items():
      runs = [run(text, options, Path(folder)) for _ in range(FLAGS.runs)]
      results[name] = min(runs, key=lambda result: result["seconds"])
      figures = (f"{key} {value:,.2f}" for key, value in results[name].items())
      print(f"{name}: {', '.join(figures)}", flush=True)
  if FLAGS.output_json:
    Path(FLAGS.output_json).write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
  app.run(main)
