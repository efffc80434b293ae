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
from tests import programs
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


def test_the_default_signature_answers_texts(calls, logits):
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


def test_tensorflow_opens_an_export_without_other_operations(saved):
  code = "import sys, tensorflow as tf; tf.saved_model.load(sys.argv[1])"
  done = programs.python(["-c", code, saved])
  assert done.returncode == 0, done.stderr


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
  # Protocol buffers: field 6 {1 {1 {3 "serving_default"}, 2 {1 name, 2 tensor}
  # for each input}}.
  value = b"\x12" + bytes([len(tensor)]) + tensor
  size = bytes([len(value) + 8])
  first, second = (
    b"\x12" + size + b"\x0a\x06" + name + value
    for name in (b"text_a", b"text_b")
  )
  request = b"\x0a\x11\x1a\x0fserving_default" + first + second
  log = b"\x0a" + bytes([len(request)]) + request
  expected = b"\x32" + bytes([len(log)]) + log
  # The inputs may have any order.
  assert record in (expected, expected.replace(first + second, second + first))


SCHEMAS = {
  "labels": features.classification(T),
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
  for endings in (["bc", "de"], ["a", "bc bc", ""]):
    texts = dict.fromkeys(("sent1", "sent2"), tf.constant(["a bc"]))
    answer = calls["serving_default"](**texts, choices=tf.constant([endings]))
    example = ChoiceExample("a bc", "a bc", tuple(endings))
    schema = features.multiple_choice(T, len(endings))
    records = _records(schema, [build(example)[0]])
    logits = calls["serving_examples"](examples=records)["logits"].numpy()
    probs = softmax(logits)
    np.testing.assert_allclose(answer["probabilities"], probs, atol=1e-5)


def test_an_export_overwrites_nothing(saved, every_task):
  with pytest.raises(FileExistsError, match="is there already: name an"):
    export.save(saved, every_task[NAME], ["savedmodel"])
  files.check_is_free(f"{saved}/variables/nothing")


def test_two_exports_at_once_do_not_mix_their_files(tmp_path):
  (tmp_path / "export").mkdir()  # an empty folder is allowed
  with (
    pytest.raises(FileExistsError, match="/export is there already"),
    export.new_folder(f"{tmp_path}/export") as slow,
  ):
    Path(slow, "old").touch()
    with export.new_folder(f"{tmp_path}/export/") as folder:
      Path(folder, "saved_model.pb").touch()
  assert [path.name for path in tmp_path.iterdir()] == ["export"]
  assert [p.name for p in (tmp_path / "export").iterdir()] == ["saved_model.pb"]


def test_an_export_that_ends_early_leaves_nothing(tmp_path):
  with (
    pytest.raises(KeyboardInterrupt),
    export.new_folder(f"{tmp_path}/export") as folder,
  ):
    Path(folder, "saved_model.pb").touch()
    raise KeyboardInterrupt
  assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_an_export_has_no_gradient_functions(fused, every_task, tmp_path):
  """TensorFlow never frees the gradient graphs of a loaded model."""
  export.save(str(tmp_path / "1"), every_task[NAME], ["savedmodel"])
  assert b"internal_grad_fn" not in (tmp_path / "1/saved_model.pb").read_bytes()
