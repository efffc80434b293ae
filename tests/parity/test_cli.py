"""Complete runs equal runs of the original's programs with the same flags.

Only the larger golden set has complete runs, because a checkpoint with 30,522
tokens takes more than a megabyte. The other test files in this folder compare
tokens, records, outputs, losses and updates with the small set, too.
"""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests import programs
from tests.parity import golden_files

FILE_FLAGS = """
bert_config_file data_dir init_checkpoint input_file predict_file train_file
vocab_file
""".split()


def _runs(pattern):
  """Parametrizes a test with the folders of matching runs."""
  cases = golden_files.larger_cases(f"cli/{pattern}/flags.json")
  folders = [path.parent for path in cases]
  return pytest.mark.parametrize("case", folders, ids=golden_files.name)


def _run(program, case, scratch):
  """Runs a program with the flags of a case; returns its output folder."""
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
  flags["output_dir"] = scratch / "output"
  if flags.get("train_file") == "":
    del flags["train_file"]
  words = [f"--{name}={value}" for name, value in flags.items()]
  done = programs.python([f"{program}.py", *words])
  assert done.returncode == 0, done.stderr
  return scratch / "output"


def _json(path):
  if path.exists():
    return json.loads(path.read_text())
  return json.loads(gzip.decompress(Path(f"{path}.gz").read_bytes()))


@_runs("run_pretraining_eval*")
def test_an_evaluation_of_pretraining_equals_the_originals(case, tmp_path):
  result = programs.results(_run("run_pretraining", case, tmp_path))
  expected = programs.results(case)
  assert list(result) == list(expected)
  assert result == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["pretraining", "classifier", "squad"])
def test_a_training_leaves_the_files_of_the_original(program, tmp_path):
  cases = golden_files.larger_cases(f"cli/run_{program}_train/flags.json")
  if not cases:
    pytest.skip("needs the larger golden numbers (BERT_ORACLE)")
  [path] = cases
  output = _run(f"run_{program}", path.parent, tmp_path)
  golden = _json(path)
  if names := golden.get("eval_results_keys"):
    assert list(programs.results(output)) == names
  # graph.pbtxt and .meta would describe TensorFlow 1 graphs.
  for pattern in golden["files"]:
    if not pattern.endswith((".pbtxt", ".meta")):
      assert list(output.glob(pattern)), pattern
  reader = tf.train.load_checkpoint(str(output))
  shapes = reader.get_variable_to_shape_map()
  types = reader.get_variable_to_dtype_map()
  result = {
    name: [shape, types[name].name]
    for name, shape in shapes.items()
    if not name.startswith("run/")
  }
  assert result == golden["checkpoint"]["vars"]
  assert reader.get_tensor("global_step") == golden["checkpoint"]["step"]


@_runs("run_classifier_*_len*")
def test_a_classifier_evaluates_and_predicts_like_the_original(case, tmp_path):
  output = _run("run_classifier", case, tmp_path)
  result, expected = programs.results(output), programs.results(case)
  for name, value in expected.items():
    assert result[name] == pytest.approx(value, rel=1e-5), name
  result, expected = (
    np.loadtxt(folder / "test_results.tsv", delimiter="\t")
    for folder in (output, case)
  )
  np.testing.assert_allclose(result, expected, atol=1e-5)
  for pattern in _json(case / "flags.json")["files"]:
    assert list(output.glob(pattern)), pattern


@_runs("run_squad_v*")
def test_answers_to_questions_equal_the_originals(case, tmp_path):
  output = _run("run_squad", case, tmp_path)
  result, expected = (_json(f / "predictions.json") for f in (output, case))
  assert list(result.items()) == list(expected.items())
  if (case / "null_odds.json").exists():
    odds = _json(case / "null_odds.json")
    assert _json(output / "null_odds.json") == pytest.approx(odds, abs=1e-4)
  result, expected = (
    _json(folder / "nbest_predictions.json") for folder in (output, case)
  )
  assert list(result) == list(expected)
  for question, entries in expected.items():
    for mine, theirs in zip(result[question], entries, strict=True):
      assert mine.pop("text") == theirs.pop("text")
      assert mine == pytest.approx(theirs, abs=1e-4)
