"""Times create_pretraining_data.py from start to end.

python -m benchmarks.pretraining_data --vocab_file=vocab.txt
"""

import statistics
import sys
import tempfile
from pathlib import Path
from random import Random

from benchmarks import contest
from benchmarks.results import Table

# The original at commit eedf571 takes 15.8 s with start-up for 5.00 MB of text,
# 921 thousand tokens, dupe_factor 1: TensorFlow 1.15.5, Python 3.7, one core of
# a shared Intel Xeon. Measured once, together with the golden records.
ORIGINAL_SECONDS, ORIGINAL_MB = 15.8, 5.00

PROGRAM = [str(contest.ROOT / "create_pretraining_data.py"), "--overwrite"]
PEER = "tf-models-official"
COMMANDS = {
  "one process": [*PROGRAM, "--dupe_factor=1"],
  "two workers": [*PROGRAM, "--dupe_factor=1", "--num_workers=2"],
  "dynamic masking": [*PROGRAM, "--masking=dynamic"],
  PEER: ["-m", "official.nlp.data.create_pretraining_data", "--dupe_factor=1"],
}

# Common words, and parts to make rare words from.
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
  """Makes documents of 5 to 20 sentences; every call makes the same ones."""
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
  text = ""
  while len(text) < size:
    text += "".join(rng.choices(sentences, k=rng.randint(5, 20))) + "\n"
  return text[:size]


def measure(args: contest.Args) -> contest.Results:
  vocab_file, workers = Path(args.vocab_file).absolute(), {}
  with tempfile.TemporaryDirectory() as folder:
    text, log = Path(folder, "text.txt"), f"{folder}/log.txt"
    text.write_text(make_text(args.megabytes * 10**6))
    flags = [f"--input_file={text}", f"--output_file={folder}/out.tfrecord"]
    for label, command in COMMANDS.items():
      words = [sys.executable, *command, *flags, f"--vocab_file={vocab_file}"]
      config = {"command": words, "log": log}
      workers[label] = contest.Contestant("command", config)
    answers = contest.interleave(workers, args.rounds)
  yield {
    "case": f"made-up, {args.megabytes} MB",
    "megabytes": args.megabytes,
    "seconds": contest.select(answers, "seconds"),
  }


def rows(result: dict):
  megabytes, seconds = result["megabytes"], result["seconds"]
  original = ORIGINAL_SECONDS / ORIGINAL_MB * megabytes
  for label, values in seconds.items():
    middle = statistics.median(values)
    yield (
      result["case"],
      label,
      f"{middle:.2f}",
      f"{megabytes / middle:.2f}",
      f"{original / middle:.1f}",
      *contest.ratios(seconds[PEER], values, digits=1),
    )


TABLE = Table(
  "pretraining_data",
  f"case | who | s | MB/s | times the original | times {PEER} | range",
  rows,
)


if __name__ == "__main__":
  contest.run(
    TABLE,
    measure,
    vocab_file=(None, "uncased vocabulary"),
    megabytes=(5, "of the text"),
  )
