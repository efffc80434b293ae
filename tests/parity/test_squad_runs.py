"""Whole runs of run_squad.py: the original's answers from the same flags."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from tests.parity import golden_files

ROOT = Path(__file__).parents[2]
FILES = (
  *("bert_config_file", "init_checkpoint", "vocab_file"),
  *("predict_file", "train_file"),
)


def _cases(pattern):
  result = golden_files.larger_cases(f"cli/{pattern}/flags.json")
  return [path.parent for path in result]


def _run(case, output):
  root = case.parents[1]
  flags = json.loads((case / "flags.json").read_text())["flags"]
  flags |= {k: str(root / flags[k]) for k in FILES if flags.get(k)}
  command = [sys.executable, str(ROOT / "run_squad.py")]
  command += [f"--{k}={v}" for k, v in (flags | {"output_dir": output}).items()]
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  assert done.returncode == 0, done.stderr


def _golden(path):
  return json.loads(gzip.decompress(Path(f"{path}.gz").read_bytes()))


@pytest.mark.parametrize("case", _cases("run_squad_v*"), ids=golden_files.name)
def test_prediction(case, tmp_path):
  _run(case, tmp_path)
  result = json.loads((tmp_path / "predictions.json").read_text())
  assert result == json.loads((case / "predictions.json").read_text())
  expected = _golden(case / "nbest_predictions.json")
  result = json.loads((tmp_path / "nbest_predictions.json").read_text())
  assert list(result) == list(expected)
  for name, entries in expected.items():
    assert len(result[name]) == len(entries)
    for ours, theirs in zip(result[name], entries, strict=True):
      assert ours["text"] == theirs["text"]
      for key in ("probability", "start_logit", "end_logit"):
        assert ours[key] == pytest.approx(theirs[key], abs=1e-4)
  if (case / "null_odds.json").exists():
    expected = json.loads((case / "null_odds.json").read_text())
    result = json.loads((tmp_path / "null_odds.json").read_text())
    assert result == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
  "case", _cases("run_squad_train"), ids=golden_files.name
)
def test_what_training_leaves_behind(case, tmp_path):
  _run(case, tmp_path)
  golden = json.loads((case / "flags.json").read_text())
  for pattern in golden["files"]:
    if not pattern.endswith((".pbtxt", ".meta")) and "ckpt-0." not in pattern:
      assert list(tmp_path.glob(pattern)), pattern
  reader = tf.train.load_checkpoint(str(tmp_path))
  shapes = reader.get_variable_to_shape_map()
  for name, (shape, _) in golden["checkpoint"]["vars"].items():
    assert shapes[name] == shape, name
  ours = {name for name in shapes if not name.startswith("run/")}
  assert ours == set(golden["checkpoint"]["vars"])
  assert reader.get_tensor("global_step") == golden["checkpoint"]["step"]
