"""Precedence of two sources, both together, and false values."""

import json
from dataclasses import dataclass

import pytest
import tensorflow as tf

from cli.settings import flag
from data import vocab
from modeling import models
from modeling.config import BertConfig
from runs import devices, fine_tune, model_files, record, session
from runs.task_settings import EvaluatedFineTuning
from storage import UserError
from tests import programs
from tests.training import toy
from training import run_json

TOKENS = (*vocab.SPECIAL_TOKENS, "a")


@pytest.mark.parametrize("gpus", [[], ["GPU:0"]])
@pytest.mark.parametrize(
  ("given", "by_length", "packs", "on_gpu"),
  [
    (None, False, False, True),
    (None, False, None, True),
    (None, True, False, False),  # lengths vary
    (None, False, True, False),
    (None, True, True, False),
    (False, False, False, False),
    (False, True, True, False),
    (True, True, True, None),  # on any device
    (True, False, False, None),
  ],
)
def test_a_flag_says_what_is_compiled_before_the_device_does(
  monkeypatch, gpus, given, by_length, packs, on_gpu
):
  monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: gpus)
  flags = {"jit_compile": given, "group_by_length": by_length}
  args = programs.arguments("run_classifier", **flags)
  expected = True if on_gpu is None else bool(gpus) and on_gpu
  assert devices.compiles_step(args, packs) == expected
  assert devices.needs_static_shapes(args, packs) == expected
  assert devices.needs_static_shapes(args.replace(use_tpu=True), packs)
  packed = args.replace(pack_examples=None, group_by_length=False)
  config = BertConfig(5, 8, 1, 2, 8)
  is_possible = not given and not (gpus and given is None)
  result = fine_tune.packs_examples(packed, config)
  assert result == (None if is_possible else False)
  for decided in (False, True):
    chosen = args.replace(pack_examples=decided)
    assert fine_tune.packs_examples(chosen, config) is decided


@pytest.mark.parametrize(
  ("names", "expected"),
  [
    ({"tpu_name": "a"}, "a"),
    ({"master": "b"}, "b"),
    ({"tpu_name": "a", "master": "b"}, "a"),
    ({"tpu_name": "", "master": "b"}, "b"),
    ({}, "local"),
  ],
)
def test_the_name_of_a_tpu_counts_before_its_address(
  monkeypatch, names, expected
):
  asked = []

  def resolve(tpu, zone, project):
    asked.append((tpu, zone, project))
    raise ValueError("none here")

  monkeypatch.setattr(
    tf.distribute.cluster_resolver, "TPUClusterResolver", resolve
  )
  flags = {"use_tpu": True, "tpu_zone": "z", "gcp_project": "p"} | names
  with pytest.raises(UserError, match="none here"):
    devices._strategy("tpu", programs.arguments("run_squad", **flags))
  assert asked == [(expected, "z", "p")]


# --- Flags of a training ----------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Program(EvaluatedFineTuning):
  """Flags of several programs."""

  train_file: str | None = flag(None, "")
  export_top_k: int = flag(0, "")
  multi_label: bool = flag(False, "")
  long_text: str = flag("truncate", "")
  threshold: float | None = flag(None, "")
  rate: float = flag(0.1, "")
  size: int = flag(1, "")


@pytest.fixture(name="entry")
def _entry(tmp_path):
  """A training with flags unlike the defaults of older entries."""
  toy.config().to_json(str(tmp_path / "c"))
  (tmp_path / "v").touch()
  flags = {"bert_config_file": "c", "vocab_file": "v", "train_file": "t"}
  flags |= {"attention": "left_to_right", "add_bilstm": True, "ensemble": 3}
  flags |= {"export_top_k": 4, "multi_label": True, "long_text": "windows"}
  flags |= {"threshold": None, "rate": 0.5, "size": 0, "init_checkpoint": "i"}
  return {"program": "run_x", "flags": flags, "directory": str(tmp_path)}


def test_flags_of_a_training_count_before_defaults(entry):
  args = record.from_record(Program, "now", entry, {})
  own = entry["flags"]
  for name in own.keys() - {"bert_config_file", "vocab_file", "train_file"}:
    if name != "init_checkpoint":
      assert args[name] == own[name], name
  assert (args.init_checkpoint, args.train_file) == (None, None)


@pytest.mark.parametrize(
  "changes",
  [
    {"add_bilstm": False, "multi_label": False},
    {"export_top_k": 0, "rate": 0.0, "size": 0},
    {"attention": None, "long_text": ""},
    {"threshold": 0.0},
    {"threshold": -1.5, "rate": 2},
    {"init_checkpoint": "other", "train_file": "other"},
    {"vocab_file": "other", "bert_config_file": "other"},
  ],
)
def test_changes_count_before_the_flags_of_a_training(entry, changes):
  args = record.from_record(Program, "now", entry, changes)
  for name, value in changes.items():
    assert args[name] == value
    assert isinstance(args[name], type(value)) or name == "rate"
  assert args.output_dir == "now"


@pytest.mark.parametrize(
  ("name", "value"),
  [("rate", ""), ("add_bilstm", 0), ("long_text", False), ("ensemble", "3")],
)
def test_a_change_has_the_type_of_the_flag_also_if_it_is_false(
  entry, name, value
):
  with pytest.raises(UserError, match=f"{name}={value!r} is not of type"):
    record.from_record(Program, "now", entry, {name: value})


# --- Files ------------------------------------------------------------------


def _vocabulary(path, *tokens):
  path.parent.mkdir(exist_ok=True)
  path.write_text("\n".join(tokens))
  return str(path)


@pytest.mark.parametrize("has_own", [False, True])
def test_the_vocabulary_of_a_checkpoint_counts_first(tmp_path, has_own):
  """The vocabulary next to the checkpoint precedes the recorded file."""
  trained = _vocabulary(tmp_path / "named.txt", *TOKENS)
  if has_own:
    _vocabulary(tmp_path / "run/vocab.txt", *TOKENS[:5], "b")
  flags = {"vocab_file": trained}
  run_json.append(str(tmp_path / "run"), {"flags": flags})
  (tmp_path / "run/x.index").touch()
  for name, given in (("a", TOKENS), ("b", (*TOKENS[:5], "b"))):
    path = _vocabulary(tmp_path / "given.txt", *given)
    args = programs.arguments("run_ner", vocab_file=path)
    start = str(tmp_path / "run/x")
    if (name == "b") == has_own:
      model_files.check_vocabulary(args, 6, start)
    else:
      with pytest.raises(UserError, match="is not the vocabulary of the mode"):
        model_files.check_vocabulary(args, 6, start)
    model_files.check_vocabulary(args, 6, None)


@pytest.mark.parametrize("length", [None, 0, 16, 17])
def test_a_length_is_checked_if_there_is_one(tmp_path, length):
  path = str(tmp_path / "c")
  BertConfig(6, 8, 1, 2, 9, max_position_embeddings=16).to_json(path)
  args = programs.arguments(
    "run_ner", bert_config_file=path, max_seq_length=length
  )
  if length == 17:
    with pytest.raises(UserError, match="max_seq_length 17 exceeds"):
      model_files.config(args)
  else:
    assert model_files.config(args).vocab_size == 6


@pytest.mark.parametrize("keeps", [{}, {"keep_best": True}])
@pytest.mark.parametrize("has_newest", [False, True])
@pytest.mark.parametrize("has_best", [False, True])
def test_a_run_evaluates_its_best_its_newest_or_the_given_checkpoint(
  tmp_path, monkeypatch, keeps, has_newest, has_best
):
  folder = str(tmp_path)
  loaded = []

  class Stand:
    """Stands in for the checkpoints of a folder."""

    def __init__(self, directory):
      self.directory = directory

    def load(self, model, init_checkpoint):
      loaded.append((self.directory, init_checkpoint))
      return 7

  monkeypatch.setattr(session, "Checkpoints", Stand)
  for is_there, path in ((has_newest, tmp_path), (has_best, tmp_path / "best")):
    path.mkdir(exist_ok=True)
    if is_there:
      (path / "m.index").touch()
      (path / "checkpoint").write_text('model_checkpoint_path: "m"\n')
  args = programs.arguments(
    "run_squad", output_dir=folder, init_checkpoint="given", **keeps
  )
  assert session.load(args, "model", Stand(folder)) == 7
  takes_best = has_best and (keeps or not has_newest)
  best = f"{folder}/best" if takes_best else folder
  assert loaded == [(best, "given")]
  # The last training's flag has the same effect.
  loaded.clear()
  for flags in ({"keep_best": not keeps}, dict(keeps)):
    run_json.append(folder, {"flags": flags})
  args = args.replace(keep_best=False)
  session.load(args, "model", Stand(folder))
  assert loaded == [(best, "given")]
  # An older entry may have no patience, or None.
  entry = {"flags": {"early_stopping_patience": None} | keeps}
  (tmp_path / "run.json").write_text(json.dumps([entry]))
  loaded.clear()
  session.load(args, "model", Stand(folder))
  assert loaded == [(best, "given")]


def test_an_ensemble_of_one_is_the_model_itself():
  made = []

  def make():
    made.append(models.classifier(toy.config(), 2))
    return made[-1]

  model = models.ensemble(make, 1, models.mean_probs)
  assert [model] == made
  assert not isinstance(model, models.Ensemble)
