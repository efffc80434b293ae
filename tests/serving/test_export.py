"""SavedModels for raw text and for records; incomplete exports."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from data import features
from data.tokenization import FullTokenizer
from serving import export, savedmodel
from serving.answers import softmax
from storage import files, tfrecord
from storage.tfrecord import Schema
from tasks.classification.examples import TextExample, TextRecordBuilder
from tasks.multiple_choice.examples import ChoiceExample, ChoiceRecordBuilder
from tests.serving import tasks
from tests.serving.tasks import T

NAME = "classification of pairs"
TEXTS = [("a bc", "dede"), ("ab " * 9, ""), ("", "a bc")]


@pytest.fixture(name="saved", scope="module")
def _saved(folders):
  return str(folders[NAME])


@pytest.fixture(name="calls", scope="module")
def _calls(saved):
  return tf.saved_model.load(saved).signatures


@pytest.fixture(name="rows", scope="module")
def _rows(tokenizer):
  build = TextRecordBuilder(tokenizer, T, tasks.LABELS)
  return [build(TextExample("", *pair, "yes"))[0] for pair in TEXTS]


@pytest.fixture(name="logits", scope="module")
def _logits(calls, rows):
  """The model's logits for TEXTS, [N, L]."""
  inputs = {
    name: tf.constant([row[name] for row in rows], tf.int32)
    for name in features.TOKENS
  }
  [logits] = calls["serving_features"](**inputs).values()
  return logits.numpy()


def test_a_savedmodel_has_three_signatures(calls, logits):
  signatures = ["serving_default", "serving_examples", "serving_features"]
  assert sorted(calls) == signatures
  first, second = map(tf.constant, zip(*TEXTS, strict=True))
  answer = calls["serving_default"](text_a=first, text_b=second)
  np.testing.assert_allclose(
    answer["probabilities"], softmax(logits), atol=1e-5
  )


def test_an_export_has_the_files_to_encode_texts_and_decode_answers(saved):
  names = ("task.json", "tokenizer_config.json", "vocab.txt", "labels.txt")
  task, config, vocab_file, labels = (Path(saved, n).read_text() for n in names)
  assert json.loads(task) == {"task": "classification", "pairs": True}
  lengths = {
    "model_max_length": T,
    "vocab_fingerprint": FullTokenizer(tasks.vocab_file()).fingerprint,
  }
  assert json.loads(config) == {"do_lower_case": True} | lengths
  assert vocab_file == Path(tasks.vocab_file()).read_text()
  assert labels == "no\nyes\n"


def test_the_default_signature_takes_rows_if_the_graph_reads_no_texts(exported):
  for name in ("tagging", "questions"):
    functions = exported[name].functions
    default = functions["serving_default"].structured_input_signature[1]
    assert sorted(default) == ["input_ids", "input_mask", "segment_ids"]
    assert functions["serving_default"] is functions["serving_features"]


def test_an_export_has_a_warm_up_request(saved):
  path = f"{saved}/{savedmodel.WARM_UP_FILE}"
  [record] = tf.data.TFRecordDataset(path).as_numpy_iterator()
  tensor = tf.make_tensor_proto(["."]).SerializeToString()
  assert record.count(tensor) == 2 and b"serving_default" in record


def test_a_warm_up_request_has_the_bytes_of_a_prediction_log():
  # Written by hand: field 6 {field 1 {field 1 {field 3 "serving_default"},
  # field 2 {1 "k", 2 tensor}}}.
  value = tf.constant(["v" * 200])
  tensor = tf.make_tensor_proto(value).SerializeToString()
  assert 200 < len(tensor) < 220  # lengths take two bytes
  entry = b"\x0a\x01k\x12" + bytes([len(tensor) % 128 + 128, 1]) + tensor
  request = b"\x0a\x11\x1a\x0fserving_default\x12"
  request += bytes([len(entry) % 128 + 128, 1]) + entry
  log = b"\x0a" + bytes([len(request) % 128 + 128, 1]) + request
  expected = b"\x32" + bytes([len(log) % 128 + 128, 1]) + log
  assert savedmodel.prediction_log({"k": tensor}) == expected


SCHEMAS = {
  "labels": features.classification(T),
  "scores": features.classification(T, dtype="float32"),
  "neither": Schema(*features.tokens(T)),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_export_reads_records_even_without_labels(calls, logits, rows, name):
  result = calls["serving_examples"](examples=_records(SCHEMAS[name], rows))
  np.testing.assert_allclose(result["logits"], logits, atol=1e-5)
  # A record may be shorter than max_seq_length.
  number = sum(rows[0]["input_mask"])
  cut = {key: rows[0][key][:number] for key in features.TOKENS}
  examples = _records(Schema(*features.tokens(number)), [cut])
  result = calls["serving_examples"](examples=examples)
  np.testing.assert_allclose(result["logits"], logits[:1], atol=1e-5)


def _records(schema, rows):
  encode = tfrecord.ExampleEncoder(schema)
  return tf.constant([encode({k: row[k] for k in schema}) for row in rows])


def test_records_may_have_any_number_of_choices(exported, tokenizer):
  calls = exported["choices"].functions
  build = ChoiceRecordBuilder(tokenizer, T)
  records, expected = [], []
  for endings in (["bc", "de"], ["a", "bc bc", ""]):
    texts = dict.fromkeys(("sent1", "sent2"), tf.constant(["a bc"]))
    answer = calls["serving_default"](**texts, choices=tf.constant([endings]))
    example = ChoiceExample("a bc", "a bc", tuple(endings))
    schema = features.multiple_choice(T, len(endings))
    records.append(_records(schema, [build(example)[0]]))
    logits = calls["serving_examples"](examples=records[-1])["logits"].numpy()
    expected += [*logits]
    probs = softmax(logits)
    np.testing.assert_allclose(answer["probabilities"], probs, atol=1e-5)
  result = calls["serving_examples"](examples=tf.concat(records, 0))["logits"]
  for row, logits in zip(result.numpy(), expected, strict=True):
    np.testing.assert_allclose(row[: len(logits)], logits, atol=1e-5)


def test_an_export_overwrites_nothing(saved, every_task):
  with pytest.raises(FileExistsError, match="is there already: remove it"):
    export.save(saved, every_task[NAME], ["savedmodel"])
  files.check_is_free(f"{saved}/variables/nothing")


def test_files_of_a_killed_export_are_removed(tmp_path):
  left = tmp_path / "export.unfinished" / "variables"
  left.mkdir(parents=True)
  (left / "old").touch()
  (tmp_path / "export").mkdir()  # an empty folder is allowed
  with export.new_folder(f"{tmp_path}/export/") as folder:
    Path(folder, "saved_model.pb").touch()
  assert [path.name for path in tmp_path.iterdir()] == ["export"]
  assert [p.name for p in (tmp_path / "export").iterdir()] == ["saved_model.pb"]


def test_an_export_does_not_replace_an_export_that_ended_first(tmp_path):
  first = tmp_path / "export" / "first"
  with (
    pytest.raises(FileExistsError, match="/export is there already"),
    export.new_folder(f"{tmp_path}/export"),
  ):
    first.parent.mkdir()
    first.touch()
  assert [*tmp_path.rglob("*")] == [first.parent, first]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_export_that_ends_early_leaves_nothing(tmp_path, error):
  with pytest.raises(error), export.new_folder(f"{tmp_path}/export") as folder:
    Path(folder, "saved_model.pb").touch()
    raise error
  assert not [*tmp_path.iterdir()]


def test_only_an_export_for_an_engine_has_task_json(
  every_task, tmp_path, monkeypatch
):
  for name in ("keras", "tflite"):
    monkeypatch.setattr(f"serving.{name}.save", lambda folder, served: None)
  for formats in (["keras"], ["keras", "tflite"]):
    folder = tmp_path / "-".join(formats)
    export.save(str(folder), every_task[NAME], formats)
    assert (folder / "task.json").exists() == ("tflite" in formats)


@pytest.mark.slow
def test_an_export_has_no_gradient_functions(fused, every_task, tmp_path):
  """TensorFlow never frees the gradient graphs of a loaded model."""
  export.save(str(tmp_path / "1"), every_task[NAME], ["savedmodel"])
  assert b"internal_grad_fn" not in (tmp_path / "1/saved_model.pb").read_bytes()
