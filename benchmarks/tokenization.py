"""Tokens a second of tokenizers, on texts of the user.

  python -m benchmarks.tokenization --texts='English:novels/*.txt' \
    --vocab_file=vocab.txt --peer_python=torch/bin/python

All tokenize the same lines, on all cores but for what is Python. A speed is the
number of tokens of FullTokenizer over the seconds, whatever tokens a contestant
makes; "same lines" is the fraction of lines with equal tokens. A ratio is the
time of a peer over that of GraphTokenizer.
"""

import glob
import os
import statistics
import sys
from operator import eq

from benchmarks import contest
from benchmarks.results import Table

FULL, BASELINE = "FullTokenizer", "GraphTokenizer"
CONTESTANTS = (FULL, "CachedTokenizer", BASELINE)
# By name in flags: labels.
PEERS = {
  "tf_text": "tensorflow_text.BertTokenizer",
  "tf_text_fast": "tensorflow_text.FastBertTokenizer",
  "hugging_face": "Hugging Face tokenizers",
}


def measure(args: contest.Args) -> contest.Results:
  if unknown := set(args.peers) - set(PEERS):
    raise ValueError(f"--peers={[*unknown]}: expected of {[*PEERS]}")
  labels = (*CONTESTANTS, *(PEERS[name] for name in args.peers))
  pythons = {PEERS["hugging_face"]: args.peer_python}
  config = {"vocab_file": os.path.abspath(args.vocab_file)}
  config |= {"megabytes": args.megabytes}
  for text in args.texts:
    name, _, pattern = text.partition(":")
    config["paths"] = sorted(map(os.path.abspath, glob.glob(pattern)))
    if not name or not config["paths"]:
      raise ValueError(f"--texts={text}: expected NAME:FILES that exist")
    contestants = {
      label: contest.Contestant(
        "tokenizer",
        config | {"tokenizer": label},
        pythons.get(label, sys.executable),
      )
      for label in labels
    }
    answers = contest.interleave(contestants, args.rounds)
    expected = answers[FULL][0]
    yield {
      "case": name,
      "lines": len(expected["checksums"]),
      "tokens": expected["tokens"],
      "seconds": contest.select(answers, "seconds"),
      "same_lines": {
        label: sum(map(eq, rounds[0]["checksums"], expected["checksums"]))
        for label, rounds in answers.items()
      },
    }


def rows(result: dict):
  for label, seconds in result["seconds"].items():
    yield (
      result["case"],
      label,
      f"{result['tokens'] / statistics.median(seconds) / 1e6:.2f}",
      *contest.ratios(seconds, result["seconds"][BASELINE]),
      f"{result['same_lines'][label] / result['lines']:.2%}",
    )


HEADER = "case | who | million tokens/s | ratio | range | same lines"
TABLE = Table("tokenization", HEADER, rows)


if __name__ == "__main__":
  contest.run(
    TABLE,
    measure,
    rounds=5,
    texts=([], "NAME:FILES of each"),
    vocab_file=(None, "uncased vocabulary"),
    megabytes=(4.0, "of a text"),
    peers=(list(PEERS), f"of {', '.join(PEERS)}"),
    peer_python=(sys.executable, "Python with tokenizers"),
  )
