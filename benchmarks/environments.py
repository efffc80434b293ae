"""Costs of an environment that answers: disk, start, memory, time per text.

python -m benchmarks.environments --data=glue_data/MRPC --export=export \
  --hugging_face=hf --serve=serve/bin/python --onnx=onnx/bin/python \
  --torch=torch/bin/python

Each contestant answers the same pairs, one by one, in its own environment: ours
with requirements-serve.txt, the same export's SavedModel with requirements.txt,
ONNX Runtime with tokenizers, and transformers with torch. The model of ONNX is
the file that benchmarks.serving writes. "MB" is the size of installed packages
without pip; "start" lasts from the start of the process to its first answer.
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
  pairs = serving.examples(args.data, args.examples)
  own = contestants(args)
  size = {label: _megabytes(one.python) for label, one in own.items()}
  first = contest.interleave_fresh(
    own, args.rounds, pairs=pairs[:1], batch_size=1
  )
  answers = contest.interleave(own, args.rounds, pairs=pairs, batch_size=1)
  yield {
    "case": "MRPC",
    "MB": size,
    "start": contest.select(first, "started"),
    "peak": {label: max(a["peak"] for a in x) for label, x in answers.items()},
    "seconds": {
      label: [statistics.median(a["seconds"]) for a in x]
      for label, x in answers.items()
    },
  }


def _megabytes(python):
  command = [python, "-c", _SIZE]
  return int(subprocess.check_output(command)) / 1e6


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
