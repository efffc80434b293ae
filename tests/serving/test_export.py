"""SavedModels of raw text and of records, complete or not there."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from data import features
from data.tokenization import FullTokenizer
from modeling import models
from modeling.config import BertConfig
from serving import export
from serving.answers import TextConfig, softmax
from serving.export import ServedModel
from storage import files, tfrecord
from storage.tfrecord import Schema
from tasks.classification import answers as classification
from tasks.classification import examples as classification_examples
from tasks.classification.task import TextClassification
from tasks.multiple_choice import answers as multiple_choice
from tasks.multiple_choice.examples import ChoiceExample, ChoiceRecordBuilder
from tasks.multiple_choice.task import MultipleChoice
from tests.parity import golden_files

T = 8
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "film", "good", "##ish"]
CONFIG = BertConfig(len(WORDS), 8, 1, 2, 8, max_position_embeddings=T)
LABELS = ("no", "yes")
TEXTS = [("a film", "goodish"), ("good " * 9, ""), ("", "a film")]


@pytest.fixture(name="vocabulary", scope="module")
def _vocabulary(tmp_path_factory):
  path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
  path.write_text("\n".join(WORDS) + "\n")
  return path


@pytest.fixture(name="served", scope="module")
def _served(vocabulary):
  answers = classification.Answers(
    TextConfig(str(vocabulary), True, T, LABELS), pairs=True
  )
  model = models.classifier(CONFIG, 2)
  return ServedModel(model, answers, TextClassification)


@pytest.fixture(name="saved", scope="module")
def _saved(served, tmp_path_factory):
  """Folder of a classifier's export."""
  path = str(tmp_path_factory.mktemp("classifier") / "export")
  export.save(path, served, ["savedmodel"])
  return path


@pytest.fixture(name="asked", scope="module")
def _asked(saved):
  """The export's signatures by name."""
  return tf.saved_model.load(saved).signatures


@pytest.fixture(name="rows", scope="module")
def _rows(vocabulary):
  """Records of TEXTS."""
  build = classification_examples.TextRecordBuilder(
    FullTokenizer(vocabulary), T, LABELS
  )
  return [
    build(classification_examples.TextExample("", *pair, "yes"))
    for pair in TEXTS
  ]


@pytest.fixture(name="said", scope="module")
def _said(asked):
  """Answers of the export for TEXTS."""
  first, second = map(tf.constant, zip(*TEXTS, strict=True))
  return asked["serving_default"](text_a=first, text_b=second)


def _assert_same(result, expected):
  assert sorted(result) == sorted(expected)
  for name, value in expected.items():
    if value.dtype == tf.string:
      assert result[name].numpy().tolist() == value.numpy().tolist()
    else:
      np.testing.assert_allclose(result[name], value, atol=1e-6)


@pytest.fixture(name="logits", scope="module")
def _logits(asked, rows):
  """The model's outputs for TEXTS."""
  inputs = {
    name: tf.constant([row[name] for row in rows], tf.int32)
    for name in features.TOKENS
  }
  return asked["serving_features"](**inputs)


def test_there_are_three_signatures(asked, said, logits):
  assert set(asked) == {
    "serving_default",
    "serving_examples",
    "serving_features",
  }
  assert list(logits) == ["logits"]
  np.testing.assert_allclose(
    said["probabilities"], softmax(logits["logits"].numpy()), atol=1e-6
  )


def test_the_files_of_its_texts_are_in_its_folder(saved, vocabulary):
  names = ("task.json", "tokenizer_config.json", "vocab.txt", "labels.txt")
  task, config, vocab_file, labels = (Path(saved, n).read_text() for n in names)
  assert json.loads(task) == {"task": "classification", "pairs": True}
  assert json.loads(config) == {"do_lower_case": True, "model_max_length": T}
  assert vocab_file == vocabulary.read_text()
  assert labels == "no\nyes\n"


def test_without_texts_in_the_graph_the_default_takes_rows(exported):
  for name in ("tagging", "questions"):
    functions = exported[name].functions
    default = functions["serving_default"].structured_input_signature[1]
    assert sorted(default) == ["input_ids", "input_mask", "segment_ids"]
    assert functions["serving_default"] is functions["serving_features"]


def test_an_export_has_a_request_to_warm_up(saved):
  path = os.path.join(saved, export.WARM_UP_FILE)
  [record] = tf.data.TFRecordDataset(path).as_numpy_iterator()
  tensor = tf.make_tensor_proto(["."]).SerializeToString()
  assert record.count(tensor) == 2 and b"serving_default" in record


def test_a_request_has_the_bytes_of_the_message():
  # By hand: field 6 {field 1 {field 1 {field 3 "serving_default"},
  # field 2 {1 "k", 2 tensor}}}.
  value = tf.constant(["v" * 200])
  tensor = tf.make_tensor_proto(value).SerializeToString()
  assert 200 < len(tensor) < 220  # lengths take two bytes
  entry = b"\x0a\x01k\x12" + bytes([len(tensor) % 128 + 128, 1]) + tensor
  request = b"\x0a\x11\x1a\x0fserving_default\x12"
  request += bytes([len(entry) % 128 + 128, 1]) + entry
  log = b"\x0a" + bytes([len(request) % 128 + 128, 1]) + request
  expected = b"\x32" + bytes([len(log) % 128 + 128, 1]) + log
  assert export.prediction_log({"k": value}) == expected


@pytest.mark.parametrize(
  "schema",
  [
    features.classification(T),
    features.classification(T, dtype="float32"),
    Schema(*features.tokens(T)),
  ],
  ids=["labels", "scores", "neither"],
)
def test_records_are_read_with_and_without_labels(asked, logits, rows, schema):
  result = asked["serving_examples"](examples=_records(schema, rows))
  _assert_same(result, logits)


def _records(schema, rows):
  encode = tfrecord.ExampleEncoder(schema)
  return tf.constant([encode({k: row[k] for k in schema}) for row in rows])


def test_a_record_may_be_short(asked, logits, rows):
  number = sum(rows[0]["input_mask"])
  schema = Schema(*features.tokens(number))
  cut = {name: rows[0][name][:number] for name in schema}
  result = asked["serving_examples"](examples=_records(schema, [cut]))
  _assert_same(result, {name: value[:1] for name, value in logits.items()})


def test_records_of_any_number_of_choices(vocabulary, tmp_path):
  answers = multiple_choice.Answers(TextConfig(str(vocabulary), True, T))
  served = ServedModel(models.multiple_choice(CONFIG), answers, MultipleChoice)
  path = str(tmp_path / "export")
  export.save(path, served, ["savedmodel"])
  asked = tf.saved_model.load(path).signatures
  records, expected = [], []
  for endings in (["film", "good"], ["a", "film film", ""]):
    text = tf.constant(["a film"])
    said = asked["serving_default"](
      sent1=text, sent2=text, choices=tf.constant([endings])
    )
    example = ChoiceExample("a film", "a film", tuple(endings))
    build = ChoiceRecordBuilder(FullTokenizer(vocabulary), T)
    records.append(
      _records(features.multiple_choice(T, len(endings)), [build(example)])
    )
    logits = asked["serving_examples"](examples=records[-1])["logits"]
    expected.append(logits.numpy()[0])
    np.testing.assert_allclose(
      said["probabilities"], softmax(logits.numpy()), atol=1e-6
    )
  result = asked["serving_examples"](examples=tf.concat(records, 0))["logits"]
  for row, logits in zip(result.numpy(), expected, strict=True):
    np.testing.assert_allclose(row[: len(logits)], logits, atol=1e-6)
  nothing = tf.constant([], tf.string)
  assert asked["serving_examples"](examples=nothing)["logits"].shape[0] == 0


def test_nothing_is_overwritten(saved, served):
  with pytest.raises(FileExistsError, match="is there already: remove it"):
    export.save(saved, served, ["savedmodel"])
  files.check_is_free(f"{saved}/variables/nothing")


def test_what_a_killed_export_left_is_cleared_away(tmp_path):
  left = tmp_path / "export.unfinished" / "variables"
  left.mkdir(parents=True)
  (left / "old").touch()
  (tmp_path / "export").mkdir()  # an empty folder may be there
  with export.new_folder(f"{tmp_path}/export/") as folder:
    Path(folder, "saved_model.pb").touch()
  assert [path.name for path in tmp_path.iterdir()] == ["export"]
  assert not (tmp_path / "export" / "variables" / "old").exists()
  assert (tmp_path / "export" / "saved_model.pb").exists()


class _Tokens(tf.Module):
  """Texts in the graph that are only tokenized."""

  def __init__(self, tokenizer, answers):
    super().__init__()
    self.texts = {"text": tf.TensorSpec([None], tf.string)}
    self.tokenizer = tokenizer

  def from_text(self, model, text):
    tokens = self.tokenizer.tokens(self.tokenizer.tokenize(text))
    return {"tokens": tokens.to_tensor(), "number": tokens.row_lengths()}


@pytest.mark.parametrize(
  "setting", ["lower", pytest.param("cased", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
  "path", golden_files.cases("tokenization/tokens.jsonl"), ids=golden_files.name
)
def test_an_exported_tokenizer_gives_the_originals_tokens(
  setting, path, tmp_path
):
  vocabulary = golden_files.GOLDEN / "vocab.txt"
  config = TextConfig(str(vocabulary), setting == "lower", T)
  answers = classification.Answers(config, pairs=False)
  served = ServedModel(models.classifier(CONFIG, 2), answers, _Tokens)
  export.save(str(tmp_path / "export"), served, ["savedmodel"])
  asked = tf.saved_model.load(str(tmp_path / "export")).signatures
  with open(path, encoding="utf-8") as file:
    cases = [json.loads(line) for line in file]
  result = asked["serving_default"](
    text=tf.constant([case["text"] for case in cases])
  )
  rows = zip(result["tokens"].numpy(), result["number"].numpy(), strict=True)
  tokens = [[t.decode() for t in row[:number]] for row, number in rows]
  assert tokens == [case[setting] for case in cases]


@pytest.mark.slow
def test_gradients_are_left_out(fused, served, tmp_path):
  """TensorFlow keeps those of a loaded model for ever, with its graphs."""
  export.save(str(tmp_path / "1"), served, ["savedmodel"])
  assert b"internal_grad_fn" not in (tmp_path / "1/saved_model.pb").read_bytes()
