"""Settings from run.json, and warnings about changed flags."""

from dataclasses import dataclass
from typing import Any

import pytest

from cli import settings
from cli.settings import flag
from runs import model_files
from runs.task_settings import EvaluatedFineTuning
from storage import UserError
from tests import programs
from tests.training import toy
from training import run_json

TRAINING_PROGRAMS = """
  run_classifier run_ner run_pretraining run_squad run_swag
""".split()


def test_settings_from_run_json_take_missing_flags_from_the_defaults(tmp_path):
  toy.config().to_json(str(tmp_path / "c"))
  for name in "vw":
    (tmp_path / name).touch()
  flags = {"bert_config_file": "c", "vocab_file": str(tmp_path / "v")}
  flags |= {"max_answer_length": 7, "learning_rate": 0.5, "train_file": "t"}
  flags |= {"export_format": ["keras"], "flag_of_an_older_version": 1}
  entry = {"program": "run_squad", "flags": flags, "directory": str(tmp_path)}
  kind = programs.settings_of("run_squad")
  changes = {"learning_rate": 1, "vocab_file": tmp_path / "w"}
  args = model_files.from_record(kind, "now", entry, changes)
  assert args.program == "run_squad"
  expected = {"max_answer_length": 7, "learning_rate": 1.0, "train_file": None}
  expected |= {"bert_config_file": f"{tmp_path}/c", "output_dir": "now"}
  expected |= {"vocab_file": f"{tmp_path}/w", "export_format": ("keras",)}
  defaults = programs.arguments("run_squad").to_dict()
  assert args.to_dict() == defaults | expected
  unchanged = model_files.from_record(kind, "now", entry, {})
  assert unchanged.vocab_file == f"{tmp_path}/v"
  with pytest.raises(ValueError, match="run_squad has no flag rate"):
    model_files.from_record(kind, "now", entry, {"rate": 1})


@pytest.mark.parametrize(
  "change, message",
  [
    ({"optimizer": "sgd"}, "optimizer='sgd' is not one of adamw, lamb"),
    ({"max_answer_length": 0}, "max_answer_length=0 is not between 1 and inf"),
  ],
)
def test_a_changed_setting_must_be_within_the_limits_of_its_flag(
  change, message
):
  kind = programs.settings_of("run_squad")
  entry = {"program": "run_squad", "flags": {}}
  with pytest.raises(UserError, match=f"^{message}$"):
    model_files.from_record(kind, "now", entry, change)


FILES = {"bert_config_file", "vocab_file", "train_file", "init_checkpoint"}


@dataclass(frozen=True, kw_only=True)
class Program(EvaluatedFineTuning):
  train_file: str | None = flag(None, "")
  export_top_k: int = flag(0, "")
  multi_label: bool = flag(False, "")
  long_text: str = flag("truncate", "")
  threshold: float | None = flag(None, "")
  rate: float = flag(0.1, "")
  size: int = flag(1, "")


@pytest.fixture(name="trained")
def _trained(tmp_path):
  """Returns an entry of run.json whose flags differ from the defaults."""
  toy.config().to_json(str(tmp_path / "c"))
  (tmp_path / "v").touch()
  flags = {"bert_config_file": "c", "vocab_file": "v", "train_file": "t"}
  flags |= {"attention": "left_to_right", "add_bilstm": True, "ensemble": 3}
  flags |= {"export_top_k": 4, "multi_label": True, "long_text": "windows"}
  flags |= {"threshold": None, "rate": 0.5, "size": 0, "init_checkpoint": "i"}
  return {"program": "run_x", "flags": flags, "directory": str(tmp_path)}


@pytest.mark.parametrize(
  "changes",
  [
    {},
    {"add_bilstm": False, "multi_label": False},
    {"export_top_k": 0, "rate": 0.0, "size": 0},
    {"attention": None, "long_text": ""},
    {"threshold": 0.0},
    {"threshold": -1.5, "rate": 2},
    {"init_checkpoint": "other", "train_file": "other"},
    {"vocab_file": "other", "bert_config_file": "other"},
  ],
)
def test_changes_override_the_flags_of_a_training(trained, changes):
  args = model_files.from_record(Program, "now", trained, changes)
  own = trained["flags"].keys() - changes.keys() - FILES
  assert all(args[name] == trained["flags"][name] for name in own)
  for name, value in changes.items():
    assert args[name] == value
    assert isinstance(args[name], type(value)) or name == "rate"
  assert args.output_dir == "now"


@pytest.mark.parametrize(
  ("name", "value"),
  [("rate", ""), ("add_bilstm", 0), ("long_text", False), ("ensemble", "3")],
)
def test_a_changed_setting_must_have_the_type_of_its_flag(trained, name, value):
  with pytest.raises(UserError, match=f"{name}={value!r} is not of type"):
    model_files.from_record(Program, "now", trained, {name: value})


@pytest.mark.parametrize(("value", "text"), [(-1, "-1"), ([-1, -2], "-1,-2")])
def test_a_flag_that_takes_text_accepts_numbers(trained, value, text):
  changes = {"init_checkpoint": value}
  args = model_files.from_record(Program, "now", trained, changes)
  assert args.init_checkpoint == text


def _other(known: settings.Flag) -> Any:
  """Returns a value of a flag other than the default."""
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
def test_only_changed_flags_that_affect_a_training_cause_a_warning(
  program, tmp_path, caplog
):
  kind = programs.settings_of(program)
  args = programs.arguments(program, vocab_file="vocab.txt")
  run_json.append(str(tmp_path), {"flags": args.to_dict()})
  for name, known in settings.flags_of(kind).items():
    caplog.clear()
    changed = args.replace(**{name: _other(known)})
    model_files.warn_if_changed(changed, str(tmp_path))
    assert (f"--{name}=" in caplog.text) == known.training, name


# Flags that do not change what a training learns.
NOT_OF_TRAINING = """
attention delimiter dev_file do_eval do_export do_predict do_train dry_run
early_stopping_patience encoding ensemble eval_batch_size eval_file eval_steps
export_dir export_format export_top_k f1_unit gcp_project iterations_per_loop
keep_best keep_checkpoint_max master max_answer_length max_eval_steps
n_best_size null_score_diff_threshold num_seeds num_tpu_cores num_train_steps
num_workers output_dir predict_batch_size predict_file prediction_columns
profile_steps recompute_layers save_checkpoints_steps seed stop_at_step
test_file tpu_name tpu_zone verbose_logging
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
  run_json.append(str(tmp_path), {"flags": recorded})
  # Other numbers of steps continue the training, so no warning is needed.
  changes = {"learning_rate": 0.25, "num_train_steps": 8}
  args = programs.arguments("run_pretraining", **changes)
  model_files.warn_if_changed(args, str(tmp_path))
  text = f"{tmp_path} was trained with --learning_rate=0.5 (now 0.25), "
  assert f"{text}--dtype=float16 (now float32); to train" in caplog.text


def test_a_warning_names_files_whose_data_changed(tmp_path, caplog):
  trained = {"a": "1", "b": "2", "gone": "3"}
  run_json.append(str(tmp_path), {"flags": {}, "data": trained})
  args = programs.arguments("run_pretraining")
  model_files.warn_if_changed(args, str(tmp_path), {"a": "1", "new": "4"})
  assert not caplog.text
  model_files.warn_if_changed(args, str(tmp_path), {"a": "1", "b": "5"})
  assert (
    f"{tmp_path} was trained with other records in b; to train" in caplog.text
  )


def test_records_in_a_moved_folder_are_compared_by_name(tmp_path, caplog):
  flags, data = {"output_dir": "old"}, {"old/train.tf_record": "1"}
  run_json.append(str(tmp_path), {"flags": flags, "data": data})
  args = programs.arguments("run_pretraining", output_dir=str(tmp_path))
  file = f"{tmp_path}/train.tf_record"
  model_files.warn_if_changed(args, str(tmp_path), {file: "1"})
  assert "other records" not in caplog.text
  model_files.warn_if_changed(args, str(tmp_path), {file: "2"})
  assert f"other records in {file}" in caplog.text
