"""Costs of environments that answer texts: disk, start, memory, time per text.

  python -m benchmarks.environments --data=glue_data/MRPC --export=export \
    --hugging_face=hf --serve=serve/bin/python --onnx=onnx/bin/python \
    --torch=torch/bin/python

ONNX Runtime reads the file that benchmarks.serving writes. "MB" is the size of
packages without pip; "start" lasts from a process's start to its first answer.
"""

import statistics
import subprocess
import sys

from benchmarks import contest, serving
from benchmarks.contest import Contestant
from benchmarks.results import Table

_SIZE = """
import os, site
from pathlib import Path
[folder] = site.getsitepackages()
files = (f for f in Path(folder).rglob("*") if f.is_file())
tools = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
print(sum(f.stat().st_size for f in files
  if not f.relative_to(folder).parts[0].startswith(tools)))
"""


def contestants(args: contest.Args) -> dict[str, Contestant]:
  export, folder = args.export, args.hugging_face
  onnx = {"file": f"{folder}/float32.onnx", "vocab": f"{folder}/vocab.txt"}
  peer = {"folder": folder, "engine": "transformers", "dtype": "float32"}
  ours = "serve_predictor"
  return {
    "LiteRT": Contestant(ours, {"path": f"{export}?litert"}, args.serve),
    "ONNX Runtime": Contestant("serve_onnxruntime", onnx, args.onnx),
    "SavedModel": Contestant(ours, {"path": f"{export}?savedmodel"}),
    "transformers": Contestant("serve_transformers", peer, args.torch),
  }


def measure(args: contest.Args) -> contest.Results:
  pairs, own = serving.examples(args.data, args.examples), contestants(args)
  run = subprocess.check_output
  size = {k: int(run([x.python, "-c", _SIZE])) / 1e6 for k, x in own.items()}
  ask = {"batch_size": 1}
  first = contest.interleave_fresh(own, args.rounds, pairs=pairs[:1], **ask)
  answers = contest.interleave(own, args.rounds, pairs=pairs, **ask)
  peaks = contest.select(answers, "peak")
  seconds = contest.select(answers, "seconds")
  yield {
    "case": "MRPC",
    "MB": size,
    "start": contest.select(first, "started"),
    "peak": {label: max(values) for label, values in peaks.items()},
    "seconds": {k: [*map(statistics.median, x)] for k, x in seconds.items()},
  }


def rows(result: dict):
  for label, seconds in result["seconds"].items():
    start = statistics.median(result["start"][label])
    own = statistics.median(seconds) * 1e3
    numbers = result["MB"][label], result["peak"][label]
    size, peak = (f"{number:,.0f}" for number in numbers)
    yield label, size, f"{start:.2f}", peak, f"{own:.1f}"


HEADER = "who | packages, MB | start, s | peak, MB | ms a text"
TABLE = Table("environments", HEADER, rows)


if __name__ == "__main__":
  contest.run(
    TABLE,
    measure,
    data=(None, "folder of MRPC"),
    export=(None, "--export_dir with a SavedModel and LiteRT files"),
    hugging_face=(None, "folder of the same model with float32.onnx"),
    serve=(None, "Python with requirements-serve.txt"),
    onnx=(None, "Python with onnxruntime and tokenizers"),
    torch=(sys.executable, "Python with torch and transformers"),
    examples=(64, "texts"),
    rounds=5,
  )
