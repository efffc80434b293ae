"""The process that writes files, by TF_CONFIG; libraries hidden from Keras."""

import json
import sys

import pytest

from training import process

WORKERS = {"worker": ["a:1", "b:1"]}
CHIEF = {"chief": ["a:1"], "worker": ["b:1"]}


@pytest.mark.parametrize(
  ("config", "is_chief"),
  [
    (None, True),
    ({}, True),
    ({"cluster": WORKERS, "task": {"type": "worker", "index": 0}}, True),
    ({"cluster": WORKERS, "task": {"type": "worker", "index": 1}}, False),
    ({"cluster": CHIEF, "task": {"type": "worker", "index": 0}}, False),
    ({"cluster": CHIEF, "task": {"type": "chief", "index": 0}}, True),
    ({"cluster": WORKERS, "task": {"type": "evaluator", "index": 0}}, False),
  ],
)
def test_one_process_writes(monkeypatch, config, is_chief):
  if config is None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
  else:
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
  assert process.is_chief() == is_chief


def test_a_broken_tf_config_is_named(monkeypatch):
  monkeypatch.setenv("TF_CONFIG", "{cluster")
  with pytest.raises(ValueError, match=r"TF_CONFIG=\{cluster is no JSON"):
    process.is_chief()


def test_unused_libraries_are_hidden_from_keras_alone(monkeypatch):
  monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
  monkeypatch.setattr(process, "_UNUSED", ("colorsys",))
  monkeypatch.delitem(sys.modules, "colorsys", raising=False)
  process.shorten_imports()
  for importer in ("keras.src.any", "tensorflow.python.any"):
    with pytest.raises(
      ImportError, match=f"colorsys is hidden from {importer}"
    ):
      exec("import colorsys", {"__name__": importer})
    exec("import colorsys", {"__name__": "kerasana"})  # a library of others
    assert sys.modules.pop("colorsys")
