"""Contradictory flags give errors; values at a limit give none."""

import contextlib
import re

import pytest

from modeling import models
from runs import checks, fine_tune, session
from tests import programs, small_model

WINDOWS = {"long_text": "windows"}
PATIENCE = {"early_stopping_patience": 1}
EXPORT = {"do_export": True, "export_dir": "new"}
TFLITE = {"export_format": ["keras", "tflite"]}
FLAGS = {"task_name": "tsv", "max_seq_length": 10}
# A window of 10 tokens has [CLS], 8 tokens of the text and [SEP].
FLAGS |= {"max_text_length": 10, "window_stride": 8}
TRAIN = {"do_train": True}
FINE_TUNING, LONG_TEXTS = checks.check_training, checks.check_windows


def EXPORTS(args):
  checks.check_export(args, args.dtype)


def _settings(**changes):
  return programs.arguments("run_classifier", **FLAGS | changes)


def raises(message):
  if message is None:
    return contextlib.nullcontext()
  return pytest.raises(ValueError, match=re.escape(message))


# Columns: check, flags, error message or None.
CASES = [
  (FINE_TUNING, TRAIN | PATIENCE, "counts evaluations: give --eval_steps"),
  (FINE_TUNING, TRAIN | PATIENCE | {"eval_steps": 1}, None),
  (FINE_TUNING, TRAIN | {"profile_steps": (0, 1)}, None),
  (FINE_TUNING, TRAIN | {"profile_steps": (3, 3)}, "give two steps"),
  (EXPORTS, EXPORT, None),
  (EXPORTS, EXPORT | TFLITE | {"dtype": "float16"}, "with --dtype=float16"),
  (EXPORTS, EXPORT | {"dtype": "float16"}, None),
  (EXPORTS, EXPORT | {"export_format": ["onnx"]}, "=onnx: give one or"),
  (LONG_TEXTS, {}, None),
  (LONG_TEXTS, WINDOWS, None),  # at the limits
  (LONG_TEXTS, WINDOWS | {"max_text_length": 9}, "=9 is less than --max_seq"),
  (LONG_TEXTS, {"given": ["max_text_length"]}, "length needs --long_text=wi"),
]


@pytest.mark.parametrize(
  ("check", "flags", "message"), CASES, ids=lambda x: getattr(x, "__name__", "")
)
def test_only_contradictory_flags_are_refused(check, flags, message):
  args = _settings(**flags)
  with raises(message):
    check(args)


@pytest.mark.parametrize(
  ("flags", "config", "name"),
  [
    ({}, {}, None),
    ({"group_by_length": True}, {}, "--group_by_length"),
    ({"teacher": "old"}, {}, "--teacher"),
    ({"long_text": "windows"}, {}, "--long_text=windows"),
    ({"gradient_accumulation_steps": 2}, {}, "--gradient_accumulation_steps"),
    ({"distribution_strategy": "tpu"}, {}, "a TPU"),
    ({}, {"add_bilstm": True}, "--add_bilstm"),
    ({}, {"attention": "left_to_right"}, "attention 'left_to_right'"),
  ],
)
def test_packing_is_off_by_default_if_a_setting_conflicts_with_packing(
  flags, config, name
):
  args = _settings().replace(**flags)
  config = small_model.narrow(5, **config)
  assert checks.packing_conflict(args, config) == name
  for chosen in (None, False, True):  # None lets the data decide
    packs = fine_tune.packs_examples(args.replace(pack_examples=chosen), config)
    assert packs is (False if name and chosen is None else chosen)


@pytest.mark.parametrize(
  ("flags", "stride", "length"),
  [
    ({}, 8, 10),
    (WINDOWS | {"max_text_length": 40}, 8, 40),
    ({"window_stride": 0}, 4, 10),  # 0 means half of a window's text
    ({"window_stride": 0, "max_seq_length": 3}, 1, 3),
  ],
)
def test_windows_get_their_stride_and_length_from_flags(flags, stride, length):
  args = _settings(**flags, window_pooling="max")
  assert (args.stride, args.row_length) == (stride, length)
  windows = models.Windows(args.max_seq_length, stride, "max")
  expected = windows if "long_text" in flags else None
  assert session.text_windows(args) == expected


def test_only_a_network_with_a_bilstm_can_freeze_a_bilstm():
  args = _settings(freeze_layers="bilstm")
  config = small_model.narrow(5, add_bilstm=True)
  assert args.frozen_layers(config) == {("bilstm", None)}
  with pytest.raises(ValueError, match="layers 0-0 and embeddings, encoder, p"):
    args.frozen_layers(small_model.narrow(5))


def test_pipeline_options_are_split_like_a_shell_command():
  flags = {"runner": "R", "pipeline_options": "--a='b c' --d"}
  args = programs.arguments("build_vocab", **flags)
  assert args.runner_options() == ["--runner=R", "--a=b c", "--d"]
