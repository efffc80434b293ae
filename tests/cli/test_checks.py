"""Flags that contradict each other; those at the border do not."""

import contextlib
import json
import logging
import re

import pytest
from absl import logging as absl_logging

from cli import (
  arguments,
  encoder,
  fine_tuning,
  program,
  run,
  shared_flags,
  training_program,
)
from cli.arguments import Arguments
from modeling import models
from modeling.config import BertConfig
from tests import programs
from tests.training import toy

WINDOWS = {"long_text": "windows"}
PATIENCE = {"early_stopping_patience": 1}
EXPORT = {"do_export": True, "export_dir": "new"}
TFLITE = {"export_format": ["keras", "tflite"]}
FLAGS = programs.defaults("run_classifier") | {
  "learning_rate": 1e-5,
  "train_batch_size": 8,
  "max_seq_length": 10,
  "max_text_length": 10,
  "window_stride": 8,
}
TRAIN = {"do_train": True}
BY_LENGTH = TRAIN | {"group_by_length": True}
FINE_TUNING = training_program.check_fine_tuning
DEVICES = training_program.check_devices
EXPORTS = program.check_export
LONG_TEXTS = encoder.check_windows


def raises(message):
  """Expects a ValueError with this message; with None, no error."""
  if message is None:
    return contextlib.nullcontext()
  return pytest.raises(ValueError, match=re.escape(message))


# A check, flags, and the message of the error or None.
CASES = [
  (FINE_TUNING, TRAIN | PATIENCE, "counts evaluations: say with --eval_steps"),
  (FINE_TUNING, TRAIN | PATIENCE | {"eval_steps": 1}, None),
  (FINE_TUNING, TRAIN | {"num_train_epochs": 0.0}, "=0 trains nothing"),
  (FINE_TUNING, {"do_eval": True, "num_train_epochs": 0.0}, None),
  (FINE_TUNING, BY_LENGTH, None),
  (FINE_TUNING, BY_LENGTH | {"jit_compile": True}, "neither with --jit_comp"),
  (FINE_TUNING, BY_LENGTH | {"use_tpu": True}, "nor with a TPU"),
  (FINE_TUNING, TRAIN | {"ensemble": 3, "num_seeds": 2}, "command trains 2"),
  (FINE_TUNING, TRAIN | {"ensemble": 2, "num_seeds": 2}, None),
  (FINE_TUNING, TRAIN | {"profile_steps": (0, 1)}, None),
  (FINE_TUNING, TRAIN | {"profile_steps": (3, 3)}, "give two steps"),
  (FINE_TUNING, TRAIN | {"profile_steps": (1, 2, 3)}, "give two steps"),
  (FINE_TUNING, TRAIN | {"profile_steps": 3}, "give two steps"),
  (EXPORTS, EXPORT, None),
  (EXPORTS, TFLITE | {"add_bilstm": True}, None),  # exports nothing
  (EXPORTS, EXPORT | {"export_dir": None}, "--do_export needs --export_d"),
  (EXPORTS, EXPORT | TFLITE | {"dtype": "float16"}, "with --dtype=float16"),
  (EXPORTS, EXPORT | {"dtype": "float16"}, None),
  (EXPORTS, EXPORT | TFLITE, None),
  (EXPORTS, EXPORT | {"export_format": []}, "give one or more of"),
  (EXPORTS, EXPORT | {"export_format": ["onnx"]}, "=onnx: give one or"),
  (EXPORTS, {"export_format": ["onnx"]}, "=onnx: give one or"),  # not yet used
  (EXPORTS, EXPORT | TFLITE | {"add_bilstm": True}, None),
  (LONG_TEXTS, {}, None),
  (LONG_TEXTS, WINDOWS, None),  # each at its border
  (LONG_TEXTS, WINDOWS | {"max_text_length": 9}, "=9 is less than --max_seq"),
  (LONG_TEXTS, WINDOWS | {"window_stride": 9}, "has 8 of the text"),
  (LONG_TEXTS, {"given": ["max_text_length"]}, "length needs --long_text=wi"),
  (LONG_TEXTS, {"given": ["window_stride"]}, "stride needs --long_text=wi"),
  (LONG_TEXTS, {"given": ["window_pooling"]}, "pooling needs --long_text=wi"),
  (DEVICES, {"use_tpu": True, "distribution_strategy": "tpu"}, None),
  (DEVICES, {"use_tpu": True, "distribution_strategy": "mirrored"}, "="),
]


@pytest.mark.parametrize(
  ("check", "flags", "message"), CASES, ids=lambda x: getattr(x, "__name__", "")
)
def test_contradictions_and_their_borders(check, flags, message):
  args = Arguments(flags.get("given", ()), **FLAGS | flags)
  with raises(message):
    check(args)


@pytest.mark.parametrize(
  ("flags", "while_training", "at_all"),
  [
    ({}, False, False),
    ({"do_eval": True}, False, True),
    (TRAIN, False, False),
    (TRAIN | {"eval_steps": 5}, True, True),
    (TRAIN | {"keep_best": True}, True, True),
    (TRAIN | {"num_seeds": 2}, True, True),  # all trials keep their best
    (TRAIN | {"learning_rate": (1e-4, 1e-5)}, True, True),
    ({"eval_steps": 5, "keep_best": True}, False, False),
  ],
)
def test_evaluations_need_data(flags, while_training, at_all):
  args = Arguments(**FLAGS | flags)
  assert training_program.evaluates_while_training(args) == while_training
  assert ("dev" in training_program.splits_to_read(args)) == at_all


@pytest.mark.parametrize(
  ("flags", "config", "name"),
  [
    ({}, {}, None),
    ({"group_by_length": True}, {}, "--group_by_length"),
    ({"teacher": "old"}, {}, "--teacher"),
    ({"long_text": "windows"}, {}, "--long_text=windows"),
    ({"jit_compile": True}, {}, "--jit_compile"),
    ({"gradient_accumulation_steps": 2}, {}, "--gradient_accumulation_steps"),
    ({"distribution_strategy": "tpu"}, {}, "a TPU"),
    ({}, {"add_bilstm": True}, "--add_bilstm"),
    ({}, {"attention": "left_to_right"}, "attention 'left_to_right'"),
  ],
)
def test_examples_are_packed_unless_something_forbids_it(flags, config, name):
  args = Arguments(**FLAGS).replace(**flags)
  config = BertConfig(5, 8, 1, 2, 8, **config)
  assert training_program.packing_conflict(args, config) == name
  training_program.check_packing(args, config)  # is not asked for
  packs = fine_tuning.packs_examples(args, config)
  assert packs == (None if name is None else False)
  without = args.replace(pack_examples=False)
  assert fine_tuning.packs_examples(without, config) is False
  args = args.replace(pack_examples=True)
  assert fine_tuning.packs_examples(args, config)
  with raises(name and f"does not go with {name}: drop one"):
    training_program.check_packing(args, config)


def test_lengths_of_windows():
  for flags, stride, length in (
    ({}, 8, 10),
    (WINDOWS | {"max_text_length": 40}, 8, 40),
    ({"window_stride": 0}, 4, 10),
    ({"window_stride": 0, "max_seq_length": 3}, 1, 3),
  ):
    args = Arguments(**FLAGS | flags)
    assert shared_flags.window_stride(args) == stride
    assert shared_flags.row_length(args) == length
    windows = models.Windows(args.max_seq_length, stride, "max")
    result = run.text_windows(args.replace(window_pooling="max"))
    assert result == (windows if "long_text" in flags else None)


def test_a_bilstm_may_be_frozen_where_there_is_one():
  args = Arguments(freeze_layers="bilstm")
  sizes = (5, 8, 1, 2, 8)
  config = BertConfig(*sizes, add_bilstm=True)
  assert shared_flags.frozen_layers(args, config) == {("bilstm", None)}
  with pytest.raises(ValueError, match="layers 0-0 and embeddings, encoder, p"):
    shared_flags.frozen_layers(args, BertConfig(*sizes))


def test_files_of_flags_are_there_and_outputs_are_new(tmp_path):
  path, output = str(tmp_path / "in"), tmp_path / "out"
  (tmp_path / "in").touch()
  args = Arguments(
    train_file=path,
    dev_file="gone",
    test_file=None,
    output_file=str(output),
    overwrite=False,
  )
  program.check_files(args, "train_file")
  for name, message in (
    ("dev_file", "--dev_file: cannot read gone: No such file"),
    ("test_file", "this command needs --test_file"),
  ):
    with pytest.raises((ValueError, OSError), match=message):
      program.check_files(args, "train_file", name)
  with pytest.raises(IsADirectoryError, match=r"cannot read .*: Is a dir"):
    program.check_file(args.replace(dev_file=str(tmp_path)), "dev_file")
  program.check_output_file(args, path)
  (tmp_path / "link").symlink_to(output)
  for name in (output, tmp_path / "link", tmp_path / "none" / ".." / "out"):
    with pytest.raises(ValueError, match="is an input, too"):
      program.check_output_file(args, path, str(name))
    with pytest.raises(ValueError, match="is an input, too"):
      program.check_disjoint([str(output)], path, str(name))
  output.touch()
  with pytest.raises(FileExistsError, match=r"out exists already; remove it"):
    program.check_output_file(args, path)
  program.check_output_file(args.replace(overwrite=True), path)
  with pytest.raises(FileExistsError, match=r"in, .*out exist already; .*them"):
    program.check_is_new(path, "gone", str(output))
  with pytest.raises(NotADirectoryError, match=r"--output_dir=.*in is no fold"):
    program.check_writable(f"{path}/new", "output_dir")


def test_a_dry_run_is_short_and_leaves_nothing(tmp_path):
  flags = FLAGS | TRAIN | PATIENCE | {"dry_run": True, "export_dir": "new"}
  flags |= {"init_checkpoint": "bert", "learning_rate": (0.5, 0.25)}
  flags |= {"num_train_steps": 90, "num_warmup_steps": 9, "stop_at_step": 7}
  flags |= {"max_eval_steps": 50, "profile_steps": (1, 2), "num_seeds": 2}
  flags |= {"eval_steps": 5, "ensemble": 2, "output_dir": str(tmp_path)}
  args = Arguments(**flags)
  with training_program.dry_run(args) as short:
    values = short.to_dict()
    changed = {n: v for n, v in values.items() if v != args[n]}
    folder = changed.pop("output_dir")
    [*_, correct] = absl_logging.get_absl_handler().python_handler.filters
    for level, message, shown in (
      ("WARNING", f"{folder}/export, {folder}/a", f"new, {tmp_path}/a"),
      ("INFO", f"saved {folder}/a", None),
      ("INFO", "step 2 of 2", "step 2 of 2"),
    ):
      record = logging.makeLogRecord({"msg": message, "levelname": level})
      assert correct(record) == (shown is not None)
      assert record.getMessage() == (shown or message)
  assert changed == {
    "num_seeds": 1,
    "early_stopping_patience": 0,
    "ensemble": 1,
    "num_train_steps": 2,
    "num_warmup_steps": 1,
    "stop_at_step": 0,
    "max_eval_steps": 2,
    "profile_steps": None,
    "eval_steps": 0,
    "learning_rate": 0.5,
    "keep_best": True,
    "export_dir": f"{folder}/export",
  }
  assert not any(tmp_path.iterdir())
  assert training_program.max_examples(args) == 64
  args = args.replace(dry_run=False)
  assert training_program.max_examples(args) is None
  with training_program.dry_run(args) as same:
    assert same is args


def test_flags_cannot_be_changed():
  args = Arguments(["rate"], ["/bin/run_it.py", "--rate=2"], rate=2)
  other = args.replace(rate=3)
  assert (args.rate, other.rate, other.program) == (2, 3, "run_it")
  assert (other.set_flags, other.command) == (args.set_flags, args.command)
  args.to_dict().update(rate=3)
  with pytest.raises(AttributeError, match="flags cannot be changed"):
    args.rate = 3
  with pytest.raises(AttributeError):
    del args.rate
  assert args.rate == 2
  with pytest.raises(AttributeError, match="no flag ratio"):
    args.ratio  # noqa: B018


def test_flags_of_a_training_are_completed_and_changed(tmp_path):
  toy.config().to_json(str(tmp_path / "c"))
  (tmp_path / "v").touch()
  flags = {"bert_config_file": "c", "vocab_file": str(tmp_path / "v")}
  flags |= {"long_text": "windows", "learning_rate": 0.5, "train_file": "t"}
  entry = {"program": "run_x", "flags": flags, "directory": str(tmp_path)}
  args = arguments.from_record("now", entry, {"learning_rate": 1})
  assert args.program == "run_x"
  assert args.to_dict() == {
    "attention": None,
    "add_bilstm": False,
    "export_top_k": 0,
    "multi_label": False,
    "long_text": "windows",
    "ensemble": 1,
    "delimiter": None,
    "encoding": "utf-8",
    "bert_config_file": f"{tmp_path}/c",
    "vocab_file": f"{tmp_path}/v",
    "learning_rate": 1.0,
    "output_dir": "now",
    "init_checkpoint": None,
    "data_dir": None,
    "train_file": None,
  }
  for wrong, message in (
    ({"rate": 1}, "run_x has no flag rate"),
    ({"learning_rate": "1"}, "learning_rate='1' is not of type float"),
    ({"long_text": 1}, "long_text=1 is not of type str"),
  ):
    with pytest.raises(ValueError, match=message):
      arguments.from_record("now", entry, wrong)
  changed = arguments.from_record("now", entry, {"vocab_file": tmp_path / "w"})
  assert changed.vocab_file == str(tmp_path / "w")


# A training may go on with other values of these without a warning.
NOT_OF_TRAINING = """
attention delimiter do_eval do_export do_predict do_train dry_run encoding
ensemble eval_batch_size eval_file export_dir export_format export_top_k
iterations_per_loop keep_best keep_checkpoint_max max_eval_steps num_tpu_cores
num_train_steps num_workers output_dir predict_batch_size predict_file
prediction_columns profile_steps save_checkpoints_steps seed stop_at_step
test_file verbose_logging
"""


def test_no_other_flag_is_without_effect_on_a_training():
  names = {
    name
    for kind in ("classifier", "ner", "pretraining", "squad", "swag")
    for name in programs.defaults(f"run_{kind}")
  }
  ignored = filter(arguments.NOT_OF_TRAINING.match, names)
  assert sorted(ignored) == NOT_OF_TRAINING.split()


def test_flags_that_change_a_training_are_told_from_others(tmp_path, caplog):
  told = {"learning_rate": [0.5, 0.25], "dtype": "float16", "seed": 3}
  told |= {"num_train_steps": 4, "removed": 1}
  (tmp_path / "run.json").write_text(json.dumps([{"flags": told}]))
  args = Arguments(
    learning_rate=(0.5, 0.25),
    dtype="float32",
    seed=4,
    new=1,
    num_train_steps=8,  # more of them go on with the training
  )
  arguments.warn_if_changed(args, str(tmp_path))
  told = f"{tmp_path} was trained with --dtype=float16 (now float32); to train"
  assert told in caplog.text
  arguments.warn_if_changed(args.replace(learning_rate=0.5), str(tmp_path))
  assert "--learning_rate=[0.5, 0.25] (now 0.5), --dtype=" in caplog.text


def test_options_of_a_pipeline_are_words_of_a_shell():
  flags = {"runner": "R", "pipeline_options": "--a='b c' --d"}
  args = programs.arguments("build_vocab", **flags)
  assert shared_flags.pipeline_options(args) == ["--runner=R", "--a=b c", "--d"]
  args = args.replace(pipeline_options="--a='b")
  with pytest.raises(ValueError, match="--pipeline_options: No closing"):
    shared_flags.pipeline_options(args)
