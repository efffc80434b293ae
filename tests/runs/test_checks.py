"""Checks of flags, checkpoint and vocabulary before TensorFlow starts."""

import contextlib
import json
import re

import numpy as np
import pytest

from modeling import models
from runs import checks, fine_tune, model_files, session, trained_model
from storage import UserError
from tests import programs, shared, small_model, stages
from training import checkpoint, checkpoint_files

TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a")
UNUSED = ("[unused0]", "[unused1]")


@pytest.fixture(name="folder")
def _folder(tmp_path):
  """Writes a model's files, and in `run` the output folder of a fine-tuning."""
  (tmp_path / "vocab.txt").write_text("\n".join(TOKENS))
  config = small_model.narrow(len(TOKENS), max_position_embeddings=16)
  config.to_json(str(tmp_path / "bert_config.json"))
  shared.touch_checkpoint(tmp_path / "run", "model.ckpt-3")
  flags = {"do_lower_case": True, "add_bilstm": False, "vocab_file": "gone"}
  flags |= {"attention": "bidirectional", "long_text": "windows"}
  _record(tmp_path, "run_classifier", **flags)
  return tmp_path


def _record(folder, program, **flags):
  entry = {"program": program, "flags": flags, "directory": str(folder)}
  (folder / "run/run.json").write_text(json.dumps([entry]))


def _arguments(folder, program, **changes):
  flags = {
    "bert_config_file": str(folder / "bert_config.json"),
    "vocab_file": str(folder / "vocab.txt"),
    "output_dir": str(folder / "out"),
    "max_seq_length": 16,
  }
  return programs.arguments(program, **flags | changes)


def _check(folder, *same, program="run_classifier", **changes):
  args = _arguments(folder, program, **changes)
  if program == "run_pretraining":
    checks.check_run(args, model_files.config(args))
  else:
    checks.check_fine_tuning(args, *same)


@pytest.mark.parametrize("start", ["init_checkpoint", "output_dir"])
@pytest.mark.parametrize(
  "size",
  [
    {"num_hidden_layers": 2, "hidden_size": 12, "vocab_size": 7},
    {"max_position_embeddings": 512, "type_vocab_size": 3},
    {"intermediate_size": 8},
  ],
)
def test_an_error_names_a_checkpoint_and_a_config_of_different_sizes(
  folder, start, size
):
  shapes = {
    "embeddings/word_embeddings": (len(TOKENS), 8),
    "embeddings/position_embeddings": (16, 8),
    "embeddings/token_type_embeddings": (2, 8),
    "encoder/layer_0/intermediate/dense/kernel": (8, 12),
  }
  values = {f"bert/{name}": np.zeros(shape) for name, shape in shapes.items()}
  checkpoint.write(str(folder / "run/model.ckpt-3"), values)
  flags = {start: str(folder / "run"), "do_train": True}
  _check(folder, **flags)
  path = folder / "bert_config.json"
  config = json.loads(path.read_text())
  path.write_text(json.dumps(config | size))
  old = " and ".join(f"{name} {config[name]}" for name in size)
  new = " and ".join(f"{name} {value}" for name, value in size.items())
  message = f"model.ckpt-3 has {old}, but .*{path} has {new}: take the bert_con"
  with pytest.raises(UserError, match=message):
    _check(folder, **flags)


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize("field", ["num_attention_heads", "hidden_act"])
def test_a_number_of_heads_or_an_activation_unlike_the_trainings_is_refused(
  folder, field, is_recorded
):
  """The shapes of variables show neither. run.json counts, then the file."""
  config = json.loads((folder / "bert_config.json").read_text())
  old = {"num_attention_heads": 4, "hidden_act": "relu"}[field]
  own = config if is_recorded else config | {field: old}
  (folder / "run/bert_config.json").write_text(json.dumps(own))
  if is_recorded:
    entry = {"program": "run_classifier", "flags": {}}
    entry["config"] = config | {field: old}
    (folder / "run/run.json").write_text(json.dumps([entry]))
  message = f"ckpt-3 has {field} {old}, but .* has {field} {config[field]}"
  run = str(folder / "run")
  for start in ("init_checkpoint", "output_dir"):
    for do_train in (True, False):
      with pytest.raises(UserError, match=message):
        _check(folder, **{start: run, "do_train": do_train})


def test_a_training_may_start_from_lower_layers_of_a_checkpoint(folder, caplog):
  prefix = str(folder / "deep/model.ckpt")
  values = {"bert/embeddings/word_embeddings": np.zeros((len(TOKENS), 8))}
  for number in (8, 11):  # as text, "8" comes after "11"
    values[f"bert/encoder/layer_{number}/output/dense/bias"] = np.zeros(8)
  checkpoint.write(prefix, values)
  _check(folder, init_checkpoint=prefix, do_train=True)
  assert "layers 12, but" in caplog.text
  assert "has num_hidden_layers 1: the upper layers are left out" in caplog.text
  with pytest.raises(UserError, match="take the bert_config"):
    _check(folder, init_checkpoint=prefix)


def test_training_from_random_values_is_reported(folder, caplog):
  for start in ("init_checkpoint", "output_dir"):
    _check(folder, do_train=True, **{start: str(folder / "run")})
  assert not caplog.text
  _check(folder, do_train=True)
  assert "no --init_checkpoint: all variables start at random" in caplog.text


def test_an_error_names_a_flag_that_contradicts_the_trained_model(folder):
  run = str(folder / "run")
  _check(folder, output_dir=run)
  for name, value, *fixed_flags in (
    ("do_lower_case", False),
    ("add_bilstm", True),
    ("attention", "left_to_right"),
    ("long_text", "truncate", "long_text"),
  ):
    with pytest.raises(ValueError, match=f"--{name}={value}, but the model in"):
      _check(folder, *fixed_flags, output_dir=run, **{name: value})


TSV = {"task_name": "tsv"}
WINDOWED = TSV | {"long_text": "windows", "max_text_length": 16}
FIXED = [
  ("run_classifier", TSV, "is_regression long_text"),
  ("run_classifier", WINDOWED, "max_seq_length window_stride window_pooling"),
  ("run_ner", {}, "document_context feature_based"),
  ("run_ner", {"feature_based": True}, "feature_layers lstm_units"),
  ("run_squad", {"max_query_length": 5}, "version_2_with_negative"),
]


@pytest.mark.parametrize(("program", "flags", "fixed"), FIXED)
def test_a_run_keeps_the_flags_that_decide_what_a_model_reads(
  folder, program, flags, fixed
):
  args = _arguments(folder, program, output_dir=str(folder / "run"), **flags)
  for name in fixed.split():
    _record(folder, program, **args.to_dict() | {name: "other"})
    with pytest.raises(ValueError, match=f"--{name}=.*, but the "):
      stages.program(program).check_flags(args)


def test_a_student_needs_the_vocabulary_and_case_of_its_teacher(folder):
  names = {"bert_config_file": "bert_config.json", "vocab_file": "vocab.txt"}
  _record(folder, "run_classifier", **names)
  flags = {"teacher": f"{folder}/run", "do_train": True}
  for case, message in ((True, None), (False, "_case=False, but --teacher=")):
    with raises(message):
      _check(folder, **flags, do_lower_case=case)
  (folder / "run/vocab.txt").write_text("\n".join([*TOKENS[:5], "b"]))
  with raises("vocab.txt has other tokens than"):
    _check(folder, **flags)
  short = small_model.narrow(len(TOKENS), max_position_embeddings=9)
  short.to_json(str(folder / "short.json"))
  names["bert_config_file"] = "short.json"
  _record(folder, "run_classifier", **names)
  with raises("max_seq_length exceeds the 9 positions of --teacher"):
    _check(folder, **flags)


def test_an_initial_checkpoint_without_effect_is_reported(folder, caplog):
  _record(folder, "run_classifier", init_checkpoint="bert")
  for given, number in ((f"{folder}/bert", 0), (f"{folder}/other", 1)):
    flags = {"output_dir": f"{folder}/run", "init_checkpoint": given}
    _check(folder, **flags, do_eval=True)
    assert caplog.text.count("--init_checkpoint has no effect: ") == number


def test_a_model_trained_right_to_left_needs_the_flag_attention(folder):
  start = {"init_checkpoint": str(folder / "run"), "do_train": True}
  _record(folder, "run_pretraining", attention="right_to_left")
  with pytest.raises(ValueError, match="give that value, or confirm this one"):
    _check(folder, **start)
  for attention in ("bidirectional", "right_to_left"):
    _check(folder, **start, attention=attention)
  # Without run.json, the checkpoint's own bert_config.json counts.
  (folder / "run/run.json").unlink()
  config = json.loads((folder / "bert_config.json").read_text())
  config["attention"] = "right_to_left"
  (folder / "run/bert_config.json").write_text(json.dumps(config))
  with pytest.raises(ValueError, match="give that value, or confirm this one"):
    _check(folder, **start)


@pytest.mark.parametrize(
  ("changes", "is_restored", "copies_labels"),
  [
    ({}, True, True),
    ({"new_head": True}, False, False),
    ({"new_head": True, "do_train": False}, True, True),
    ({"init_checkpoint": None}, False, False),
    # A checkpoint in output_dir is restored with the labels of output_dir.
    ({"init_checkpoint": "gone", "output_dir": "run"}, True, False),
    ({"new_head": True, "output_dir": "run"}, True, False),
    ({"output_dir": "run"}, True, False),
  ],
)
def test_a_restored_head_needs_the_flags_and_labels_of_its_training(
  folder, monkeypatch, changes, is_restored, copies_labels
):
  monkeypatch.chdir(folder)
  _record(folder, "run_classifier", multi_label=True)
  (folder / "run/labels.txt").touch()
  start = {"init_checkpoint": "run", "output_dir": "out", "do_train": True}
  args = programs.arguments("run_classifier", **start | changes)
  expected = "run/labels.txt" if copies_labels else None
  assert checks.labels_file(args) == expected
  checks.check_head(args.replace(multi_label=True), "multi_label")
  message = "--multi_label=False, but the head of run"
  with raises(message if is_restored else None):
    checks.check_head(args, "multi_label")


@pytest.mark.parametrize("listing", ["", 'x: "model.ckpt-3"'])
def test_a_run_is_refused_if_the_file_checkpoint_names_none(folder, listing):
  run = folder / "run"
  (run / "checkpoint").write_text(listing)
  with pytest.raises(UserError, match="run has checkpoints, but its file"):
    _check(folder, output_dir=str(run), do_train=True)
  # A run that is killed early may leave model.ckpt-0 unlisted.
  (run / "model.ckpt-3.index").rename(run / "model.ckpt-0.index")
  _check(folder, output_dir=str(run), do_train=True)


def test_training_in_an_output_folder_of_a_different_task_is_refused(folder):
  run = str(folder / "run")
  _record(folder, "run_classifier", task_name="MRPC")
  _check(folder, output_dir=run, task_name="mrpc", do_train=True)
  _check(folder, output_dir=run, task_name="tsv")  # to predict a user's texts
  with pytest.raises(ValueError, match="was trained with --task_name=MRPC"):
    _check(folder, output_dir=run, task_name="tsv", do_train=True)


def test_only_a_new_training_may_have_another_letter_case(folder, caplog):
  flags = {"init_checkpoint": str(folder / "run"), "do_lower_case": False}
  expected = "run was trained with --do_lower_case=True"
  with pytest.raises(ValueError, match=f"{expected}: give that value"):
    _check(folder, **flags)
  _check(folder, **flags, do_train=True)
  assert f"{expected}: give this value, too" in caplog.text
  _check(folder, program="run_pretraining", **flags | {"vocab_file": None})
  _record(folder, "run_pretraining", do_lower_case=None)
  _check(folder, **flags)  # the run had no --vocab_file and read records


def test_a_vocabulary_must_equal_the_vocabulary_of_the_training(folder):
  run, other = str(folder / "run"), folder / "other.txt"
  other.write_text("\n".join([*TOKENS[:5], "b"]))
  # The file that run.json names is gone.
  _check(folder, output_dir=run, vocab_file=str(other))
  _record(folder, "run_classifier", vocab_file="vocab.txt")
  _check(folder, output_dir=run)
  shared.touch_checkpoint(folder / "left", "x")
  both = f"{folder / 'left'},{run}"
  shallow = {"init_checkpoint": both, "attention": "shallow"}
  for start in (
    {"output_dir": run},
    {"init_checkpoint": run},
    {"output_dir": run, "init_checkpoint": "gone"},  # output_dir has priority
    shallow | {"do_train": True},
  ):
    with pytest.raises(ValueError, match=r"line 6 is 'b', but 'a' in .*vocab"):
      _check(folder, vocab_file=str(other), **start)
  # vocab.txt in the run's folder overrides the file that run.json names.
  other.rename(folder / "run/vocab.txt")
  with pytest.raises(UserError, match=r"is not the vocabulary of the model"):
    _check(folder, output_dir=run)


def test_a_changed_vocabulary_file_is_refused(tmp_path):
  def arguments(*tokens):
    (tmp_path / "named.txt").write_text("\n".join(tokens))
    vocab_file = str(tmp_path / "named.txt")
    return programs.arguments("run_ner", vocab_file=vocab_file)

  args = arguments(*TOKENS, *UNUSED)
  paths = {"vocab_file": args.vocab_file, "bert_config_file": "c.json"}
  entry = {"flags": paths | {"do_lower_case": False}}
  entry |= {"directory": str(tmp_path)}
  entry["vocabulary"], _ = checks.vocabulary(args, [], 9)
  start = shared.touch_checkpoint(tmp_path / "run", "x")
  checkpoint_files.append_run(str(tmp_path / "run"), entry)
  small_model.narrow(9).to_json(str(tmp_path / "c.json"))
  changed = "named.txt is not the vocabulary with which"
  for tokens, message in (
    ((*TOKENS, *UNUSED), None),
    ((*TOKENS, "owl", UNUSED[1], "bat"), None),  # replaces [unused0], adds bat
    ((*TOKENS[:5], "b", *UNUSED), changed),
    ((*TOKENS[:5], UNUSED[0], "a", UNUSED[1]), changed),
    (TOKENS[:5], changed),
  ):
    args = arguments(*tokens)
    with raises(message):
      model_files.check_vocabulary(args, start)
    with raises(message):
      result = trained_model.find_model(start)
      assert result[:2] == (start, f"{tmp_path}/c.json")
      assert result[2:4] == (args.vocab_file, False)


# --- Flags that contradict each other; values at a limit are allowed ----------

WINDOWS = {"long_text": "windows"}
PATIENCE = {"early_stopping_patience": 1}
EXPORT = {"do_export": True, "export_dir": "new"}
TFLITE = {"export_format": ["keras", "tflite"]}
FLAGS = {"task_name": "tsv", "max_seq_length": 10, "output_dir": "run"}
# A window of 10 tokens has [CLS], 8 tokens of the text and [SEP].
FLAGS |= {"max_text_length": 10, "window_stride": 8}
TRAIN = {"do_train": True}
FINE_TUNING, LONG_TEXTS = checks.check_training, checks.check_windows
EXPORTS = checks.check_export


def _settings(**changes):
  return programs.arguments("run_classifier", **FLAGS | changes)


def raises(message):
  error = pytest.raises(ValueError, match=re.escape(message or "-"))
  return error if message else contextlib.nullcontext()


# Columns: check, flags, error message or None.
CASES = [
  (FINE_TUNING, TRAIN | PATIENCE, "counts evaluations: give --eval_steps"),
  (FINE_TUNING, TRAIN | PATIENCE | {"eval_steps": 1}, None),
  (FINE_TUNING, TRAIN | {"profile_steps": (0, 1)}, None),
  (FINE_TUNING, TRAIN | {"profile_steps": (3, 3)}, "give two steps"),
  (EXPORTS, EXPORT, None),
  (EXPORTS, EXPORT | TFLITE | {"dtype": "float16"}, "with --dtype=float16"),
  (EXPORTS, EXPORT | {"dtype": "float16"}, None),
  (EXPORTS, EXPORT | {"output_dir": "new/run"}, "new holds --output_dir: name"),
  (EXPORTS, EXPORT | {"export_format": ["onnx"]}, "=onnx: give one or"),
  (LONG_TEXTS, {}, None),
  (LONG_TEXTS, WINDOWS, None),  # at the limits
  (LONG_TEXTS, WINDOWS | {"max_text_length": 9}, "=9 is less than --max_seq"),
  (LONG_TEXTS, WINDOWS | {"window_stride": 9}, "=9 leaves tokens out"),
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
    ({"teacher": "old", "distill_weight": 0.0}, {}, None),  # no teacher
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
  with pytest.raises(ValueError, match="leaves tokens out"):
    session.text_windows(args.replace(**WINDOWS, window_stride=9))


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
