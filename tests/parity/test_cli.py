"""Whole runs of the original's programs: same flags, same results."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.parity import golden_files

ROOT = Path(__file__).parents[2]
FILE_FLAGS = (
  "bert_config_file",
  "data_dir",
  "init_checkpoint",
  "input_file",
  "vocab_file",
)


def _runs(pattern):
  cases = golden_files.larger_cases(f"cli/{pattern}/flags.json")
  return [path.parent for path in cases]


def _flags(case, scratch):
  """The case's flags with its relative paths made whole, files unpacked."""
  root = case.parents[1]
  flags = json.loads((case / "flags.json").read_text())["flags"]
  for name in set(FILE_FLAGS) & set(flags):
    packed = flags[name].endswith(" (unzipped)")
    path = root / flags[name].removesuffix(" (unzipped)")
    if packed:
      unpacked = scratch / path.name
      unpacked.write_bytes(gzip.decompress(Path(f"{path}.gz").read_bytes()))
      path = unpacked
    flags[name] = str(path)
  return flags


def _run(program, output, **flags):
  command = [sys.executable, str(ROOT / program), f"--output_dir={output}"]
  command += [f"--{name}={value}" for name, value in flags.items()]
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  assert done.returncode == 0, done.stderr


def _results(folder):
  lines = (folder / "eval_results.txt").read_text().splitlines()
  return dict(line.split(" = ") for line in lines)


@pytest.mark.parametrize(
  "case", _runs("run_pretraining_eval*"), ids=golden_files.name
)
def test_evaluation_of_pretraining(case, tmp_path):
  output = tmp_path / "output"
  _run("run_pretraining.py", output, **_flags(case, tmp_path))
  expected, result = _results(case), _results(output)
  assert list(result) == list(expected)
  for name, value in expected.items():
    assert float(result[name]) == pytest.approx(float(value), rel=1e-5), name
  assert result["global_step"] == expected["global_step"]


@pytest.mark.parametrize(
  "case", _runs("run_pretraining_train"), ids=golden_files.name
)
def test_what_pretraining_leaves_behind(case, tmp_path):
  output = tmp_path / "output"
  _run("run_pretraining.py", output, **_flags(case, tmp_path))
  golden = json.loads((case / "flags.json").read_text())
  assert list(_results(output)) == golden["eval_results_keys"]
  _assert_left_behind(golden, output)


def _assert_left_behind(golden, output):
  """The original's files are there, and its variables in the checkpoint."""
  # graph.pbtxt and .meta describe TensorFlow 1 graphs; there are none here.
  # model.ckpt-0 goes with the next checkpoint (docs/differences.md).
  for pattern in golden["files"]:
    if not pattern.endswith((".pbtxt", ".meta")) and "ckpt-0." not in pattern:
      assert list(output.glob(pattern)), pattern
  reader = tf.train.load_checkpoint(str(output))
  shapes = reader.get_variable_to_shape_map()
  types = reader.get_variable_to_dtype_map()
  for name, (shape, dtype) in golden["checkpoint"]["vars"].items():
    assert (shapes[name], types[name].name) == (shape, dtype), name
  assert reader.get_tensor("global_step") == golden["checkpoint"]["step"]


@pytest.mark.parametrize(
  "case", _runs("run_classifier_*_len*"), ids=golden_files.name
)
def test_evaluation_and_prediction_of_a_classifier(case, tmp_path):
  output = tmp_path / "output"
  _run("run_classifier.py", output, **_flags(case, tmp_path))
  expected, result = _results(case), _results(output)
  for name, value in expected.items():
    assert float(result[name]) == pytest.approx(float(value), rel=1e-5), name
  expected = np.loadtxt(case / "test_results.tsv", delimiter="\t")
  result = np.loadtxt(output / "test_results.tsv", delimiter="\t")
  np.testing.assert_allclose(result, expected, atol=1e-5)
  for pattern in json.loads((case / "flags.json").read_text())["files"]:
    assert list(output.glob(pattern)), pattern


@pytest.mark.parametrize(
  "case", _runs("run_classifier_train"), ids=golden_files.name
)
def test_what_a_classifier_leaves_behind(case, tmp_path):
  output = tmp_path / "output"
  _run("run_classifier.py", output, **_flags(case, tmp_path))
  golden = json.loads((case / "flags.json").read_text())
  _assert_left_behind(golden, output)
