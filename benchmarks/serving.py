"""SavedModels that take raw text, compared with transformers.

  python -m benchmarks.serving --data=MRPC --float32=saved \
    --bfloat16=saved_bfloat16 --hugging_face=folder \
    --peer_python=torch/bin/python

All have the same weights: exports of one run of run_classifier.py on MRPC, or
of run_squad.py, and its checkpoint converted by convert_checkpoint.py. A ratio
is to transformers in the same type and round; "differ" counts answers that are
not those of transformers in float32.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
from collections.abc import Iterator
from operator import ne
from pathlib import Path

from benchmarks import contest
from benchmarks.contest import Contestant
from benchmarks.results import Table

DTYPES = ("float32", "bfloat16")
BATCHES = (1, 32)
REFERENCE = "transformers"


def contestants(args: argparse.Namespace) -> dict[str, Contestant]:
  """bert-tf2 and its peers in each type that was exported, by label."""
  result = {}
  for dtype in DTYPES:
    if folder := getattr(args, dtype):
      own = "serve_saved_model", {"folder": os.path.abspath(folder)}
      peer = {"folder": os.path.abspath(args.hugging_face), "dtype": dtype}
      result |= {
        f"bert-tf2, {dtype}": Contestant(*own),
        f"{REFERENCE}, {dtype}": Contestant(
          "serve_transformers", peer, args.peer_python
        ),
      }
  return result


def measure(args: argparse.Namespace) -> Iterator[dict]:
  """Seconds a batch in each round, memory, and answers that differ."""
  pairs = examples(args.data, args.examples)
  labels, peaks = {}, {}
  with contest.started(contestants(args)) as workers:
    seconds = {str(n): {label: [] for label in workers} for n in BATCHES}
    for worker, size in itertools.product(workers.values(), BATCHES):
      worker.ask(pairs=pairs[:size], batch_size=size)  # warm-up
    for _ in range(args.rounds):
      for size, (label, worker) in itertools.product(BATCHES, workers.items()):
        answer = worker.ask(pairs=pairs, batch_size=size)
        full = answer["seconds"][: len(pairs) // size or 1]
        seconds[str(size)][label].append(statistics.median(full))
        labels[label], peaks[label] = answer["labels"], answer["peak"]
  expected = labels[f"{REFERENCE}, float32"]
  yield {
    "case": args.name or Path(args.data).stem,
    "pairs": len(pairs),
    "seconds": seconds,
    "peak": peaks,
    "differ": {
      label: sum(map(ne, values, expected)) for label, values in labels.items()
    },
  }


def examples(data: str, number: int) -> list[list[str]]:
  """The first pairs of a dev set, in its order."""
  if not data.endswith(".json"):
    lines = Path(data, "dev.tsv").read_text(encoding="utf-8").split("\n")
    rows = [line.split("\t") for line in lines[1:] if line]
    return [[row[3].strip(), row[4].strip()] for row in rows[:number]]
  articles = json.loads(Path(data).read_text(encoding="utf-8"))["data"]
  pairs = (
    [question["question"], paragraph["context"]]
    for article in articles
    for paragraph in article["paragraphs"]
    for question in paragraph["qas"]
  )
  return list(itertools.islice(pairs, number))


def rows(result: dict):
  """A row for each contestant."""
  small, large = (result["seconds"][str(size)] for size in BATCHES)
  for label in small:
    peer = f"{REFERENCE}, {label.split(', ')[1]}"
    yield (
      result["case"],
      label,
      f"{1000 * statistics.median(small[label]):.1f}",
      *contest.ratios(small[label], small[peer]),
      f"{BATCHES[1] / statistics.median(large[label]):.0f}",
      *contest.ratios(large[peer], large[label]),
      f"{result['peak'][label]:.0f}",
      f"{result['differ'][label]} of {result['pairs']}",
    )


TABLE = Table(
  "serving",
  (
    *("case", "who", "ms at batch 1", "ratio", "range"),
    *("texts/s at batch 32", "ratio", "range", "peak MB", "differ"),
  ),
  rows,
  contest.ROOT / "docs" / "serving.md",
)


if __name__ == "__main__":
  contest.run(
    TABLE,
    measure,
    __doc__,
    data=(None, "folder of MRPC, or a file of SQuAD"),
    name=("", "of the data in the table; default: of the file"),
    float32=(None, "a SavedModel"),
    bfloat16=("", "an export with --dtype=bfloat16"),
    hugging_face=(None, "the same model for transformers"),
    peer_python=(sys.executable, "Python that has torch"),
    examples=(128, "pairs of a turn"),
  )
