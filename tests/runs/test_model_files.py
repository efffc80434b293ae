"""Settings from run.json, and warnings about changed flags."""

from pathlib import Path

import pytest

from cli import settings
from runs import model_files
from storage import UserError
from tests import programs
from tests.training import toy
from training import checkpoint_files

TRAINING_PROGRAMS = """
  run_classifier run_ner run_pretraining run_squad run_swag
""".split()
KIND = programs.settings_of("run_squad")
# Flags of a training that differ from the defaults.
FLAGS = {"max_answer_length": 7, "learning_rate": 0.5, "ensemble": 3, "seed": 0}
FLAGS |= {"attention": "left_to_right", "add_bilstm": True}
FLAGS |= {"freeze_layers": "0"}


@pytest.fixture(name="entry")
def _entry(tmp_path, monkeypatch):
  """Writes files of a model; returns an entry of run.json."""
  monkeypatch.chdir(tmp_path)  # README puts a vocab.txt into the checkout
  toy.config().to_json(str(tmp_path / "c"))
  (tmp_path / "v").touch()
  flags = {"bert_config_file": "c", "vocab_file": "v", "train_file": "t"}
  flags |= {"init_checkpoint": "i", "null_score_diff_threshold": None}
  flags |= {"export_format": ["keras"], "flag_of_an_older_version": 1, **FLAGS}
  return {"program": "run_squad", "flags": flags, "directory": str(tmp_path)}


def test_settings_from_run_json_take_missing_flags_from_the_defaults(entry):
  args = model_files.from_record(KIND, "now", entry, {})
  assert args.program == "run_squad"
  expected = FLAGS | {"output_dir": "now", "export_format": ("keras",)}
  for name, file in (("bert_config_file", "c"), ("vocab_file", "v")):
    expected[name] = f"{entry['directory']}/{file}"
  defaults = programs.arguments("run_squad").to_dict()
  assert args.to_dict() == defaults | expected


@pytest.mark.parametrize(
  ("changes", "expected"),
  [
    ({"add_bilstm": False, "keep_checkpoint_max": 0}, {}),
    ({"seed": 7, "distill_weight": 0.0}, {}),
    ({"attention": None, "freeze_layers": ""}, {}),
    ({"null_score_diff_threshold": -1.5}, {}),
    ({"learning_rate": 2}, {"learning_rate": 2.0}),
    ({"init_checkpoint": "other", "train_file": "other"}, {}),
    ({"vocab_file": Path("w"), "bert_config_file": "d"}, {"vocab_file": "w"}),
    # A flag that takes text accepts a number, as in layers=-1.
    ({"init_checkpoint": -1}, {"init_checkpoint": "-1"}),
  ],
)
def test_changes_override_the_flags_in_run_json(entry, changes, expected):
  before = model_files.from_record(KIND, "now", entry, {}).to_dict()
  after = model_files.from_record(KIND, "now", entry, changes).to_dict()
  assert repr(after) == repr(before | changes | expected)  # 2 is not 2.0


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"rate": 1}, "run_squad has no flag rate"),
    ({"optimizer": "sgd"}, "optimizer='sgd' is not one of adamw, lamb"),
    ({"learning_rate": ""}, "learning_rate='' is not of type float"),
    ({"add_bilstm": 0}, "add_bilstm=0 is not of type bool"),
    ({"freeze_layers": False}, "freeze_layers=False is not of type str"),
    ({"ensemble": "3"}, "ensemble='3' is not of type int"),
  ],
)
def test_a_changed_setting_must_be_a_value_that_its_flag_takes(
  entry, changes, message
):
  with pytest.raises(UserError, match=f"^{message}$"):
    model_files.from_record(KIND, "now", entry, changes)


def _other(known):
  """Returns a value that is not the default of a flag."""
  if known.choices:
    return next(c for c in known.choices if c != known.default)
  if known.kind is bool:
    return not known.default
  if known.kind is tuple:
    return ("other",) if known.parts is str else (1, 2)
  if known.kind is str:
    return "other"
  return known.kind((known.default or 0) + 1)


@pytest.mark.parametrize("program", TRAINING_PROGRAMS)
def test_changed_flags_cause_a_warning_only_if_they_affect_a_training(
  program, tmp_path, caplog
):
  kind = programs.settings_of(program)
  args = programs.arguments(program, vocab_file="vocab.txt")
  checkpoint_files.append_run(str(tmp_path), {"flags": args.to_dict()})
  for name, known in settings.flags_of(kind).items():
    caplog.clear()
    changed = args.replace(**{name: _other(known)})
    model_files.warn_if_changed(changed, str(tmp_path))
    assert (f"--{name}=" in caplog.text) == known.training, name


# Flags that do not change what a training learns.
NOT_OF_TRAINING = """
attention data_dir delimiter dev_file do_eval do_export do_predict do_train
dry_run early_stopping_patience encoding ensemble eval_batch_size eval_file
eval_steps export_dir export_format export_top_k f1_unit gcp_project
iterations_per_loop keep_best keep_checkpoint_max master max_answer_length
max_eval_steps n_best_size null_score_diff_threshold num_seeds num_tpu_cores
num_train_steps num_workers output_dir predict_batch_size predict_file
prediction_columns profile_steps recompute_layers save_checkpoints_steps seed
stop_at_step test_file tpu_name tpu_zone train_file verbose_logging
"""


def test_only_the_listed_flags_have_no_effect_on_a_training():
  names = {
    name
    for program in TRAINING_PROGRAMS
    for name, known in settings.flags_of(programs.settings_of(program)).items()
    if not known.training
  }
  assert sorted(names) == NOT_OF_TRAINING.split()


def test_a_warning_names_all_changed_flags(tmp_path, caplog):
  recorded = {"learning_rate": 0.5, "dtype": "float16", "seed": 3}
  recorded |= {"num_train_steps": 4, "removed": 1}
  checkpoint_files.append_run(str(tmp_path), {"flags": recorded})
  # A different number of steps only continues the training: no warning.
  changes = {"learning_rate": 0.25, "num_train_steps": 8}
  args = programs.arguments("run_pretraining", **changes)
  model_files.warn_if_changed(args, str(tmp_path))
  text = f"{tmp_path} was trained with --learning_rate=0.5 (now 0.25), "
  assert f"{text}--dtype=float16 (now float32); to train" in caplog.text


def test_a_warning_names_files_with_changed_data(tmp_path, caplog):
  trained = {"a": "1", "b": "2", "gone": "3"}
  checkpoint_files.append_run(str(tmp_path), {"flags": {}, "data": trained})
  args = programs.arguments("run_pretraining")
  model_files.warn_if_changed(args, str(tmp_path), {"a": "1", "new": "4"})
  assert not caplog.text
  model_files.warn_if_changed(args, str(tmp_path), {"a": "1", "b": "5"})
  assert (
    f"{tmp_path} was trained with other records in b; to train" in caplog.text
  )
