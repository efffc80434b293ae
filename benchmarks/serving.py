"""Times exports and their peers from raw text to answer.

benchmarks/serving.sh makes the models and calls this program. "first" is the
time of the first answer of a new process, and "load" the time before this
answer. "differ" counts answers that differ from transformers' in float32.
"""

import itertools
import json
import os
import statistics
import sys
from operator import ne
from pathlib import Path

from benchmarks import contest
from benchmarks.results import Table

BATCHES = (1, 32)
REFERENCES = ("transformers", "ONNX Runtime")
PEERS = [f"{x} float32" for x in (*REFERENCES, "torch.compile")]


def contestants(args: contest.Args) -> dict[str, contest.Contestant]:
  """Exports and peers by label; the label's last word is the type."""
  result = {}
  for text in args.exports:
    label, path = text.split("=", 1)
    kind, dtype = label.rsplit(" ", 1)
    config = {"path": os.path.abspath(path)}
    result[f"{kind}, {dtype}"] = contest.Contestant("serve_predictor", config)
  for label in args.peers:
    engine, dtype = label.rsplit(" ", 1)
    folder = os.path.abspath(args.hugging_face)
    config = {"folder": folder, "engine": engine, "dtype": dtype}
    result[f"{engine}, {dtype}"] = contest.Contestant(
      "serve_transformers", config, args.peer_python
    )
  return result


def measure(args: contest.Args) -> contest.Results:
  if PEERS[0] not in args.peers:
    raise ValueError(f"--peers lacks {PEERS[0]}, the reference: add it")
  pairs = examples(args.data, args.examples)
  ask = {"pairs": pairs[:1], "batch_size": 1}
  alone = contest.interleave_fresh(contestants(args), 1, **ask)
  first = {
    label: (*answer["seconds"], answer["started"] - answer["seconds"][0])
    for label, [answer] in alone.items()
  }
  last = {}
  with contest.started(contestants(args)) as workers:
    seconds = {str(n): {label: [] for label in workers} for n in BATCHES}
    every = {label: [] for label in workers}
    for worker, size in itertools.product(workers.values(), BATCHES):
      worker.ask(pairs=pairs, batch_size=size)  # warm up with all lengths
    for _ in range(args.rounds):
      for size, (label, worker) in itertools.product(BATCHES, workers.items()):
        last[label] = worker.ask(pairs=pairs, batch_size=size)
        full = last[label]["seconds"][: len(pairs) // size or 1]
        seconds[str(size)][label].append(statistics.median(full))
        every[label] += full if size == 1 else []
  expected = last[f"{REFERENCES[0]}, float32"]["labels"]
  yield {
    "case": args.name or Path(args.data).stem,
    "pairs": len(pairs),
    "seconds": seconds,
    "p99": {k: statistics.quantiles(v, n=100)[98] for k, v in every.items()},
    "first": first,
    "peak": {k: answer["peak"] for k, answer in last.items()},
    "differ": {k: sum(map(ne, a["labels"], expected)) for k, a in last.items()},
  }


def examples(data: str, number: int) -> list[list[str]]:
  if not data.endswith(".json"):
    lines = Path(data, "dev.tsv").read_text(encoding="utf-8").split("\n")
    rows = [line.split("\t") for line in lines[1:] if line]
    return [[row[3].strip(), row[4].strip()] for row in rows[:number]]
  articles = json.loads(Path(data).read_text(encoding="utf-8"))["data"]
  paragraphs = [x for article in articles for x in article["paragraphs"]]
  pairs = [[q["question"], x["context"]] for x in paragraphs for q in x["qas"]]
  return pairs[:number]


def rows(result: dict):
  small, large = (result["seconds"][str(size)] for size in BATCHES)
  size = min(BATCHES[1], result["pairs"])  # texts of a large batch
  for label in small:
    first, load = result["first"][label]
    yield (
      result["case"],
      label,
      f"{1000 * statistics.median(small[label]):.1f}",
      f"{1000 * result['p99'][label]:.1f}",
      *_ratios(small, label),
      f"{size / statistics.median(large[label]):.0f}",
      *_ratios(large, label),
      f"{1000 * first:.0f}",
      f"{load:.1f}",
      f"{result['peak'][label]:.0f}",
      f"{result['differ'][label]} of {result['pairs']}",
    )


def _ratios(seconds, label):
  for name in REFERENCES:
    same = f"{name}, {label.rsplit(', ', 1)[1]}"
    peer = seconds.get(same) or seconds.get(f"{name}, float32")
    yield contest.ratios(seconds[label], peer)[0] if peer else "-"


TABLE = Table(
  "serving",
  "case | who | ms at batch 1 | p99 | to transformers | to ONNX Runtime | "
  "texts/s at batch 32 | to transformers | to ONNX Runtime | first, ms | "
  "load, s | peak MB | differ",
  rows,
)


if __name__ == "__main__":
  contest.run(
    TABLE,
    measure,
    data=(None, "folder of MRPC, or a file of SQuAD"),
    name=("", "name of the data in the table; default: the file's name"),
    exports=([], "exports as label=path, as in 'compiled float32=folder'"),
    hugging_face=(None, "the same model for transformers"),
    peer_python=(sys.executable, "Python that has torch and onnxruntime"),
    peers=(PEERS, "engines with types"),
    examples=(64, "pairs of a turn"),
  )
