import json

import numpy as np
import pytest

from conversion import interchange, original
from conversion.interchange import HEADS, CanonicalModel, head_of
from data.labels import THRESHOLD_FILES
from data.tokenization import open_tokenizer
from modeling import models
from storage import UserError
from tests import small_model
from training import checkpoint

VALUES = {"bert/a": np.float32([0, 1, 2]), "output_bias": np.float32([1, 1])}
STEP = np.int64(7)
# Training state of several optimizers, with and without a scope.
OPTIMIZER = {
  "bert/a/adam_m": np.zeros(3, np.float32),
  "bert/a/adam_v": np.zeros(3, np.float32),
  "loss_scale/value": np.float32(8),
  "bert/a/LAMB_1": np.zeros(3, np.float32),
  "output_bias/AdamWeightDecayOptimizer": np.zeros(2, np.float32),
  "beta1_power": np.float32(0.9),
}
RUN = {"run/examples": np.int64(70), "run/seed": np.int64(1)}
AVERAGE = {"bert/a/ExponentialMovingAverage": np.full(3, 5, np.float32)}


def _checkpoint(folder, more=()):
  prefix = str(folder / "model.ckpt-7")
  checkpoint.write(prefix, VALUES | {"global_step": STEP} | dict(more))
  return prefix


def test_state_is_skipped_and_averages_replace_variables_on_request(tmp_path):
  tensors = {"crf/transitions": np.zeros((2, 2), np.float32)}
  prefix = _checkpoint(tmp_path, OPTIMIZER | RUN | AVERAGE | tensors)
  bert = original.read(prefix)
  assert bert.values.keys() == VALUES.keys() | tensors.keys()
  assert bert.step == 7
  skipped = [{*names} for names in bert.skipped.values()]
  assert skipped == [AVERAGE.keys(), OPTIMIZER.keys() | RUN.keys()]
  values = original.read(prefix, averaged=True).values
  assert values.keys() == bert.values.keys()
  np.testing.assert_array_equal(values["bert/a"], [5, 5, 5])
  np.testing.assert_array_equal(values["output_bias"], [1, 1])
  with pytest.raises(ValueError, match="has no moving averages"):
    original.read(_checkpoint(tmp_path / "b"), averaged=True)


def test_a_best_checkpoint_is_read_with_the_files_of_its_run(tmp_path):
  prefix = _checkpoint(tmp_path / "best")
  (tmp_path / "labels.txt").write_text("no\nyes\n")
  (tmp_path / "best" / "vocab.txt").write_text("a\n")
  (tmp_path / "best" / "bert_config.json").write_text('{"vocab_size": 1}')
  bert = original.read(prefix)
  assert bert.labels == ("no", "yes")
  assert bert.config == {"vocab_size": 1}
  assert bert.vocabulary == str(tmp_path / "best" / "vocab.txt")
  another = tmp_path / "other.json"
  another.write_text('{"vocab_size": 2}')
  assert original.read(prefix, str(another)).config == {"vocab_size": 2}


def test_a_written_model_is_read_unchanged(tmp_path):
  vocabulary = tmp_path / "v"
  vocabulary.write_bytes(b"a\r\n\xc3\xa9")
  bert = CanonicalModel(
    "x", VALUES, {"vocab_size": 2}, str(vocabulary), labels=("n", "y")
  )
  bert.step = STEP
  bert.thresholds = dict.fromkeys(THRESHOLD_FILES, str(vocabulary))
  prefix = original.write(bert, str(tmp_path / "out"))
  names = sorted(path.name for path in (tmp_path / "out").iterdir())
  assert names == sorted(interchange.FILES["original"])
  back = original.read(prefix)
  assert (back.config, back.labels) == (bert.config, bert.labels)
  copies = {name: str(tmp_path / "out" / name) for name in THRESHOLD_FILES}
  assert back.thresholds == copies
  assert back.step == STEP
  assert (tmp_path / "out" / "vocab.txt").read_bytes() == b"a\r\n\xc3\xa9"
  for name, value in VALUES.items():
    np.testing.assert_array_equal(back.values[name], value)


def test_write_removes_files_of_an_earlier_model(tmp_path):
  stale = ("bert_config.json", "labels.txt", "vocab.txt", *THRESHOLD_FILES)
  for path in stale:
    (tmp_path / path).touch()
  original.write(CanonicalModel("x", VALUES), str(tmp_path))
  assert not any((tmp_path / path).exists() for path in stale)


def test_a_vocabulary_that_changed_since_training_is_refused(tmp_path):
  path = tmp_path / "named.txt"
  path.write_text("a\nb\n")
  entry = {"flags": {"vocab_file": str(path)}}
  entry["vocabulary"] = open_tokenizer(str(path)).fingerprint
  (tmp_path / "run.json").write_text(json.dumps([entry]))
  prefix = _checkpoint(tmp_path)
  original.complete(original.read(prefix))
  path.write_text("b\na\n")
  with pytest.raises(UserError, match=r"named.txt is not .* by vocab_file"):
    original.complete(original.read(prefix))
  with pytest.raises(UserError, match=r"named.txt is not .* by vocab_file"):
    original.complete(original.read(prefix), str(path))
  moved = tmp_path / "moved.txt"
  moved.write_text("a\nb\n")
  original.complete(original.read(prefix), str(moved))


@pytest.mark.parametrize(
  ("program", "head"),
  [("run_ner", "tagging"), ("run_classifier", "classification")],
)
def test_flags_in_run_json_override_bert_config_json(tmp_path, program, head):
  flags = {"do_lower_case": False, "multi_label": True}
  # The first two flags replace older values in bert_config.json. The flag
  # vocab_size has another meaning, so the value in bert_config.json stays.
  flags |= {"attention": "left_to_right", "add_bilstm": True, "vocab_size": 9}
  config = {"vocab_size": 2, "attention": "right_to_left"}
  (tmp_path / "bert_config.json").write_text(json.dumps(config))
  entry = {"program": program, "flags": flags}
  (tmp_path / "run.json").write_text(json.dumps([entry]))
  bert = original.read(_checkpoint(tmp_path))
  assert (bert.head, bert.lower_case, bert.multi_label) == (head, False, True)
  network = {"attention": "left_to_right", "add_bilstm": True}
  assert bert.config == {"vocab_size": 2} | network


# --- Checks ---------------------------------------------------------------

SMALL = {"vocab_size": 3, "hidden_act": "gelu"}
NETWORK = small_model.config(9, add_bilstm=True)


def _bert(config=SMALL, **values):
  result = {"a": np.zeros(2, np.float32), "b": np.ones(1, np.float32)}
  return CanonicalModel("x", result | values, config)


@pytest.mark.parametrize(
  ("back", "wrong"),
  [
    (_bert(a=np.array([0.0, -0.0], np.float32)), "a"),
    (_bert(a=np.zeros(2)), "a"),
    (_bert(a=np.zeros((1, 2), np.float32)), "a"),
    (_bert(c=np.zeros(2)), "c"),
    (CanonicalModel("x", {"a": np.zeros(2, np.float32)}, SMALL), "b"),
    (_bert(SMALL | {"hidden_act": "gelu_erf"}), "hidden_act"),
  ],
)
def test_an_error_names_the_variable_or_setting_that_write_changed(back, wrong):
  message = f"not written faithfully to x: {wrong}$"
  with pytest.raises(ValueError, match=message):
    original.check_values(_bert(), back)


def _canonical(model):
  values = {v.path: v.numpy() for v in model.weights}
  return CanonicalModel("x", values, NETWORK.to_dict())


def test_a_classifier_and_a_tagger_need_all_their_variables():
  heads = {"classification": models.classifier, "tagging": models.tagger}
  for head, make in heads.items():
    bert = _canonical(make(NETWORK, 3))
    original.check_variables(bert, head)
    del bert.values["bert/encoder/layer_0/output/dense/bias"]
    with pytest.raises(ValueError, match="x: no tensor gives bert/encoder/lay"):
      original.check_variables(bert, head)


def test_a_given_do_lower_case_overrides_the_models_setting():
  for recorded, given in ((True, False), (False, True), (False, None)):
    bert = CanonicalModel("x", {}, lower_case=recorded)
    original.complete(bert, None, given, for_transformers=False)
    assert bert.lower_case is bool(given)


@pytest.mark.parametrize(
  "changes", [{"add_bilstm": True}, {"attention": "left_to_right"}]
)
def test_a_network_that_transformers_lacks_is_refused(changes):
  config = small_model.config(9, **changes).to_dict()
  bert = CanonicalModel("x", {"bert/x": np.zeros(1)}, config)
  original.complete(bert)
  with pytest.raises(ValueError, match="which transformers' BERT lacks"):
    original.complete(bert, for_transformers=True)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_variables_with_nan_or_infinity_are_refused(value):
  bert = _bert(number=np.int64(3))
  original.complete(bert, None, None, for_transformers=False)
  bert.values["a"][1] = bert.values["b"][0] = value
  message = r"x: 2 of 3 variables have NaN or infinity \(a, b\): take another"
  with pytest.raises(ValueError, match=message):
    original.complete(bert, None, None, for_transformers=False)


def test_variables_that_do_not_fit_the_configuration_are_refused():
  bert = _canonical(models.encoder(NETWORK))
  original.check_variables(bert, "encoder")
  bert.values["bert/encoder/layer_1/output/dense/bias"] = np.zeros(16)
  with pytest.raises(ValueError, match="x: its configuration has no bert/en"):
    original.check_variables(bert, "encoder")
  bert.values.clear()
  bert.skip("module.bert.pooler.dense.bias", "of no head")
  with pytest.raises(ValueError, match=r"no tensor .*; it has module\.bert\.p"):
    original.check_variables(bert, "encoder")


# --- The head of a model -----------------------------------------------------


def _with_heads(*heads, labels=()):
  names = [name for head in heads for name in HEADS[head].variables]
  return CanonicalModel("x", dict.fromkeys([*names, "bert/a"]), labels=labels)


def test_each_head_has_a_transformers_class_and_recognizable_variables():
  names = "MultipleChoice QuestionAnswering TokenClassification "
  names += "SequenceClassification PreTraining MaskedLM"
  classes = [*(f"BertFor{name}" for name in names.split()), "BertModel"]
  assert [head.architecture for head in HEADS.values()] == classes
  # A tagger has the variables of a classifier.
  for head in HEADS.keys() - {"tagging"}:
    assert head_of(_with_heads(head)) == head
  assert head_of(_with_heads("pretraining"), "masked_lm") == "masked_lm"


@pytest.mark.parametrize(
  ("error", "kind"),
  [
    (FileNotFoundError("/a is gone"), FileNotFoundError),
    (KeyError("x"), UserError),
    (UserError("of /a: 3 rows"), UserError),
  ],
)
def test_an_error_while_reading_names_the_path(error, kind):
  @interchange.names_path
  def read(path):
    raise error

  with pytest.raises(kind, match="/a") as caught:
    read("/a")
  assert (caught.value is error) == ("/a" in str(error))


@pytest.mark.parametrize(
  ("labels", "head"),
  [
    (("B-PER", "I-PER", "O"), "tagging"),
    (("O", "I-LOC"), "tagging"),
    (("O", "B"), "classification"),
    (("B-1", "I-1"), "classification"),
  ],
)
def test_labels_show_if_a_model_is_a_tagger_or_a_classifier(labels, head):
  bert = _with_heads("tagging", labels=labels)
  assert head_of(bert) == head
  assert head_of(bert, "tagging") == "tagging"
  bert.head = "question_answering"  # the model lacks this head
  assert head_of(bert) == head
  bert.head = "tagging"
  assert head_of(bert) == "tagging"


def test_drop_head_removes_labels_and_thresholds():
  bert = _with_heads("classification", labels=("no", "yes"))
  bert.thresholds, bert.multi_label = {"thresholds.tsv": "x"}, True
  bert.drop_head()
  assert [*bert.values] == ["bert/a"]
  assert (bert.labels, bert.thresholds, bert.multi_label) == ((), {}, False)
  assert [*bert.skipped.values()] == [["output_bias", "output_weights"]]
