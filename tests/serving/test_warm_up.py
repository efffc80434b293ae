"""Requests in exports that make a server ready."""

import numpy as np
import pytest
import tensorflow as tf

from serving import compiled_model, export, warm_up
from tasks.classification.task import TextClassification
from tasks.multiple_choice.task import MultipleChoice
from tasks.squad.decoding import DecodingConfig
from tasks.squad.records import WindowConfig
from tasks.squad.serving import QuestionAnswering
from tests.serving import tasks


@pytest.mark.parametrize("pairs", [False, True])
def test_there_is_a_request_for_each_shape(graph_tokenizer, pairs):
  task = TextClassification(graph_tokenizer, tasks.T, None, pairs)
  shapes = []
  for texts in export.warm_up_requests(task, compiled=True):
    [size] = {len(value) for value in texts.values()}
    lengths = [len(value.numpy()[0].split()) for value in texts.values()]
    shapes.append((size, sum(lengths) + 1 + len(lengths)))
  assert shapes == [(size, tasks.T) for size in compiled_model.ROWS]


def test_large_batches_of_long_texts_are_left_out(graph_tokenizer):
  task = TextClassification(graph_tokenizer, 512, None, pairs=False)
  shapes = [
    (len(texts["text"]), len(texts["text"].numpy()[0].split()) + 2)
    for texts in export.warm_up_requests(task, compiled=True)
  ]
  assert {length for _, length in shapes} == set(compiled_model.LENGTHS)
  assert max(size for size, length in shapes if length == 32) == 32
  assert max(size for size, length in shapes if length == 512) == 8
  plain = [
    len(t["text"]) for t in export.warm_up_requests(task, compiled=False)
  ]
  assert plain == [1, 8]


def test_inputs_may_be_lists_of_texts(graph_tokenizer):
  task = MultipleChoice(graph_tokenizer, tasks.T)
  requests = list(export.warm_up_requests(task, compiled=True))
  assert [r["choices"].shape for r in requests] == [(2**i, 4) for i in range(6)]


def test_windows_of_a_static_length_have_one_length(graph_tokenizer):
  config, decoding = WindowConfig(64, max_query_length=4), DecodingConfig()
  task = QuestionAnswering(graph_tokenizer, config, decoding)
  requests = list(export.warm_up_requests(task, compiled=True))
  assert [len(r["question"]) for r in requests] == list(compiled_model.ROWS)
  assert {len(r["context"].numpy()[0].split()) for r in requests} == {60}


def test_they_can_be_read_back(graph_tokenizer, tmp_path):
  task = TextClassification(graph_tokenizer, tasks.T, ("a", "b"), pairs=True)
  folder = str(tmp_path)
  warm_up.save(folder, export.warm_up_requests(task, compiled=False))
  expected = list(export.warm_up_requests(task, compiled=False))
  requests = warm_up.load(folder)
  assert len(requests) == len(expected) == 2
  for texts, original in zip(requests, expected, strict=True):
    assert sorted(texts) == sorted(original)
    for name, value in original.items():
      assert np.array_equal(texts[name], value)
  assert not warm_up.load(str(tmp_path / "other"))
  path = str(tmp_path / warm_up.FILE)  # as TF Serving allows them
  records = [*tf.data.TFRecordDataset(path).as_numpy_iterator()]
  others = [record.replace(b"default", b"another") for record in records]
  with tf.io.TFRecordWriter(path) as writer:
    for record in (records[0], *others):
      writer.write(record)
  assert len(warm_up.load(folder)) == 1


def test_tensorflow_serving_reads_them(graph_tokenizer, tmp_path):
  # pip install --no-deps tensorflow-serving-api
  protos = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
  task = TextClassification(graph_tokenizer, tasks.T, None, pairs=True)
  expected = list(export.warm_up_requests(task, compiled=True))
  warm_up.save(str(tmp_path), iter(expected))
  records = tf.data.TFRecordDataset(str(tmp_path / warm_up.FILE))
  for record, texts in zip(records.as_numpy_iterator(), expected, strict=True):
    log = protos.PredictionLog.FromString(record)
    request = log.predict_log.request
    assert request.model_spec.signature_name == "serving_default"
    for name, value in texts.items():
      assert np.array_equal(tf.make_ndarray(request.inputs[name]), value)


def test_the_bytes_are_those_of_the_messages():
  # By hand: field 6 {field 1 {field 1 {field 3 "s"}, field 2 {1 "k", 2 "v"}}}.
  log = warm_up._message()()
  log.predict_log.request.model_spec.signature_name = "s"
  log.predict_log.request.inputs.add(key="k", value=b"v")
  expected = b"\x32\x0f\x0a\x0d\x0a\x03\x1a\x01s\x12\x06\x0a\x01k\x12\x01v"
  assert log.SerializeToString() == expected


def test_progress_is_printed(capsys):
  seen = []
  warm_up.run(lambda text: seen.append(text), [{"text": 1}, {"text": 2}])
  assert seen == [1, 2]
  assert "warmed up 2 of 2 shapes" in capsys.readouterr().err
