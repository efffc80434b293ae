"""SavedModels of raw text and of records, complete or not there."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from data import features
from data.tokenization import FullTokenizer
from data.tokenization_ops import GraphTokenizer
from modeling import models
from modeling.config import BertConfig
from serving import export, warm_up
from storage import files, tfrecord
from storage.tfrecord import Schema
from tasks.classification import examples as classification_examples
from tasks.classification.task import TextClassification
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


@pytest.fixture(name="task", scope="module")
def _task(vocabulary):
  return TextClassification(GraphTokenizer(vocabulary), T, LABELS, pairs=True)


@pytest.fixture(name="saved", scope="module")
def _saved(task, tmp_path_factory):
  """Folder of a classifier's export."""
  path = str(tmp_path_factory.mktemp("classifier") / "export")
  export.save(path, models.classifier(CONFIG, 2), task)
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


def test_there_are_three_signatures(asked, said, rows):
  assert set(asked) == {
    "serving_default",
    "serving_examples",
    "serving_features",
  }
  assert said["probabilities"].shape == (3, 2)
  inputs = {
    name: tf.constant([row[name] for row in rows], tf.int32)
    for name in Schema(*features.tokens(T))
  }
  _assert_same(asked["serving_features"](**inputs), said)


def test_an_export_has_requests_to_warm_up(saved):
  assert [len(texts["text_a"]) for texts in warm_up.load(saved)] == [1, 32]


@pytest.mark.parametrize(
  "schema",
  [
    features.classification(T),
    features.classification(T, dtype="float32"),
    Schema(*features.tokens(T)),
  ],
  ids=["labels", "scores", "neither"],
)
def test_records_are_read_with_and_without_labels(asked, said, rows, schema):
  _assert_same(asked["serving_examples"](examples=_records(schema, rows)), said)


def _records(schema, rows):
  encode = tfrecord.ExampleEncoder(schema)
  return tf.constant([encode({k: row[k] for k in schema}) for row in rows])


def test_a_record_may_be_short(asked, said, rows):
  number = sum(rows[0]["input_mask"])
  schema = Schema(*features.tokens(number))
  cut = {name: rows[0][name][:number] for name in schema}
  result = asked["serving_examples"](examples=_records(schema, [cut]))
  _assert_same(result, {name: value[:1] for name, value in said.items()})


def test_an_empty_batch(asked):
  nothing = tf.constant([], tf.string)
  result = asked["serving_default"](text_a=nothing, text_b=nothing)
  assert result["probabilities"].shape == (0, 2)
  result = asked["serving_examples"](examples=nothing)
  assert result["probabilities"].shape == (0, 2)


def test_records_of_any_number_of_choices(vocabulary, tmp_path):
  task = MultipleChoice(GraphTokenizer(vocabulary), T)
  path = str(tmp_path / "export")
  export.save(path, models.multiple_choice(CONFIG), task)
  asked = tf.saved_model.load(path).signatures
  records = []
  for endings in (["film", "good"], ["a", "film film", ""]):
    text = tf.constant(["a film"])
    said = asked["serving_default"](
      sent1=text, sent2=text, choices=tf.constant([endings])
    )
    example = ChoiceExample("a film", "a film", tuple(endings))
    build = ChoiceRecordBuilder(FullTokenizer(vocabulary), T, len(endings))
    records.append(_records(build.schema, [build(example)]))
    result = asked["serving_examples"](examples=records[-1])
    said.pop("text")
    _assert_same(result, said)
  result = asked["serving_examples"](examples=tf.concat(records, 0))
  assert result["probabilities"][0, 2] == 0.0
  nothing = tf.constant([], tf.string)
  assert asked["serving_examples"](examples=nothing)["choice"].shape == (0,)
  np.testing.assert_allclose(
    result["probabilities"][1], said["probabilities"][0], atol=1e-6
  )


def test_nothing_is_overwritten(saved, task):
  with pytest.raises(FileExistsError, match="is there already: remove it"):
    export.save(saved, models.classifier(CONFIG, 2), task)
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
  """A task that only tokenizes."""

  def __init__(self, tokenizer):
    super().__init__()
    self.texts = {"text": tf.TensorSpec([None], tf.string)}
    self.schema = Schema(*features.tokens(T))
    self.tokenizer = tokenizer

  def from_text(self, model, text):
    tokens = self.tokenizer.tokens(self.tokenizer.tokenize(text))
    return {"tokens": tokens.to_tensor(), "number": tokens.row_lengths()}

  def from_features(self, model, **inputs):
    return model(inputs)


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
  task = _Tokens(GraphTokenizer(vocabulary, setting == "lower"))
  export.save(str(tmp_path / "export"), models.classifier(CONFIG, 2), task)
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
def test_gradients_are_left_out(fused, task, tmp_path):
  """TensorFlow keeps those of a loaded model for ever, with its graphs."""
  model = models.classifier(CONFIG, 2)
  export.save(str(tmp_path / "1"), model, task)
  assert b"internal_grad_fn" not in (tmp_path / "1/saved_model.pb").read_bytes()
