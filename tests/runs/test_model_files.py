"""Settings from run.json, changed flags, and the flagfile of a command."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from absl import flags

from cli import program, settings
from cli.settings import Settings, flag
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
  assert args.to_dict() == programs.arguments("run_squad").to_dict() | expected


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
    ({"ensemble": 0}, "ensemble=0 is less than 1"),
  ],
)
def test_a_changed_setting_must_be_a_value_of_its_flag(entry, changes, message):
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
iterations_per_loop keep_best master max_answer_length max_eval_steps
n_best_size null_score_diff_threshold num_seeds num_tpu_cores num_train_steps
num_workers output_dir predict_batch_size predict_file prediction_columns
profile_steps recompute_layers save_checkpoints_steps seed stop_at_step
test_file tpu_name tpu_zone train_file verbose_logging
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
  # JSON has a list for a tuple, which is not a change.
  args = programs.arguments("run_classifier", class_weights=("a=2", "b=1"))
  entry = {"flags": args.to_dict(), "data": {"a": "1", "b": "2", "gone": "3"}}
  checkpoint_files.append_run(str(tmp_path), entry)
  model_files.warn_if_changed(args, str(tmp_path), {"a": "1", "new": "4"})
  assert not caplog.text
  model_files.warn_if_changed(args, str(tmp_path), {"a": "1", "b": "5"})
  assert f"{tmp_path} was trained with other records in b; to" in caplog.text


# --- command.flags -----------------------------------------------------------

SPECIAL = ["", 'it\'s "b"', "a=b,c", "~/x", "--x=y", "#1", "하다", "\\n"]


@dataclass(frozen=True, kw_only=True)
class Program(Settings):
  text: str | None = flag(None, "", text=True)
  other: str = flag("x", "")
  output_dir: str | None = flag(None, "")
  export_dir: str | None = flag(None, "")
  do_export: bool = flag(False, "")
  do_lower_case: bool = flag(True, "")
  jit_compile: bool | None = flag(None, "")
  columns: tuple[str, ...] = flag(("a", "b"), "")
  rate: float = flag(0.1, "")
  seed: int | None = flag(None, "")
  rates: float = flag(5e-5, "", swept=True)
  delimiter: str | None = flag(None, "")


def _parsed(monkeypatch, argv=()):
  values = flags.FlagValues()
  settings.define(Program, values)
  monkeypatch.setattr(flags, "FLAGS", values)
  program._parse(Program, ["run_it.py", *argv])
  return settings.from_flags(Program, values, ["run_it.py", *argv])


def _save(folder, args, seed=7):
  model_files.save_command(args.replace(output_dir=str(folder)), seed)
  return folder / "command.flags"


@pytest.mark.parametrize(("value", "name"), [("\t", r"\t"), (" ", "space")])
def test_a_blank_as_the_value_of_a_flag_is_written_as_a_name(
  tmp_path, monkeypatch, value, name
):
  path = _save(tmp_path, _parsed(monkeypatch, [f"--delimiter={value}"]))
  assert _parsed(monkeypatch, [f"--flagfile={path}"]).delimiter == name


@pytest.mark.parametrize("value", SPECIAL)
def test_command_flags_keeps_any_value_of_a_flag(tmp_path, monkeypatch, value):
  given = (f"--text={value}", "--columns=" + '"1,2",3', "--rates=1e-3,0.1")
  args = _parsed(monkeypatch, given)
  path = _save(tmp_path, args)
  again = _parsed(monkeypatch, [f"--flagfile={path}"])
  assert again.to_dict() == args.to_dict() | {"output_dir": None, "seed": 7}
  assert again.columns == ("1,2", "3")
  text = path.read_text()
  assert _save(tmp_path, again).read_text() == text


COMMAND_FLAGS = """\
# --do_export
--nodo_lower_case
# --export_dir=e
# --output_dir=out
--seed=7
--text=a
# Defaults:
--columns=a,b
--other=x
--rate=0.1
--rates=5e-05
"""


def test_command_flags_has_given_flags_before_defaults(tmp_path, monkeypatch):
  given = "--nodo_lower_case --text=a --other=x --seed=3 --output_dir=out"
  given = [*given.split(), "--do_export", "--export_dir=e"]
  text = _save(tmp_path, _parsed(monkeypatch, given)).read_text()
  command, folder, lines = text.split("\n", 2)
  assert "run_it.py --flagfile=" in command
  assert folder.endswith(f" {os.getcwd()!r}")
  assert lines == COMMAND_FLAGS


def test_only_the_chief_worker_writes_command_flags(tmp_path, monkeypatch):
  args = _parsed(monkeypatch)
  toy.set_worker(monkeypatch, 1)
  assert not _save(tmp_path, args).exists()


def test_a_flag_set_to_its_default_counts_as_given_if_the_default_varies():
  values = flags.FlagValues()
  kind = programs.settings_of("create_pretraining_data")
  settings.define(kind, values)
  required = ["--input_file=a", "--vocab_file=b"]
  # Only the default of --dupe_factor varies: it depends on --masking.
  values(["x", "--dupe_factor=10", "--short_seq_prob=0.1", *required])
  given = settings.from_flags(kind, values).given
  assert given == {"dupe_factor", "input_file", "vocab_file"}
