"""Batches: joined, bounded, cancelled, and as if each request were alone."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from serving.server import batching
from serving.server.batching import Batcher, Closed, Function, QueueFull
from serving.server.saved_model import to_function


def _texts(*texts):
  return {"text": np.array(texts, object)}


class _Echo:
  """A function of texts that waits until it may go on, and keeps batches."""

  def __init__(self):
    self.gate, self.started = threading.Event(), threading.Event()
    self.batches = []
    self.function = Function(self._run, can_join=True)

  def _run(self, inputs):
    self.batches.append(inputs["text"].tolist())
    self.started.set()
    assert self.gate.wait(10)
    if b"bad" in inputs["text"]:
      raise ValueError("bad")
    return inputs


@pytest.fixture(name="batcher")
def _batcher():
  batcher = Batcher(max_size=4, timeout=5.0, capacity=8)
  yield batcher
  batcher.close()


@pytest.fixture(name="busy")
def _busy(batcher):
  """An echo whose first batch is running."""
  echo = _Echo()
  first = batcher.submit(echo.function, _texts(b"first"))
  assert echo.started.wait(10)
  yield echo
  echo.gate.set()
  assert first.result(10)["text"] == [b"first"]


def _submit(batcher, echo, *texts):
  return [batcher.submit(echo.function, _texts(text)) for text in texts]


def test_a_lone_request_does_not_wait(batcher):
  begin = time.monotonic()
  function = Function(lambda inputs: inputs, can_join=True)
  for _ in range(3):
    assert batcher.submit(function, _texts(b"a")).result(10) == _texts(b"a")
  assert time.monotonic() - begin < 4


def test_requests_that_wait_share_a_batch(batcher, busy):
  futures = _submit(batcher, busy, b"a", b"b", b"c")
  busy.gate.set()
  assert [f.result(10)["text"].tolist() for f in futures] == [
    [b"a"],
    [b"b"],
    [b"c"],
  ]
  assert busy.batches == [[b"first"], [b"a", b"b", b"c"]]


def test_a_batch_is_not_larger_than_its_maximum(batcher, busy):
  futures = _submit(batcher, busy, *[b"a"] * 6)
  busy.gate.set()
  for future in futures:
    future.result(10)
  assert [len(batch) for batch in busy.batches] == [1, 4, 2]


def test_a_batch_waits_no_longer_than_its_time():
  batcher = Batcher(max_size=4, timeout=0.05, capacity=8)
  echo = _Echo()
  echo.gate.set()
  first = batcher.submit(echo.function, _texts(b"a"))
  second = batcher.submit(echo.function, _texts(b"b"))
  assert first.result(10) and second.result(10)
  begin = time.monotonic()
  assert batcher.submit(echo.function, _texts(b"c")).result(10)
  assert time.monotonic() - begin < 4
  batcher.close()


def test_only_equal_shapes_and_functions_share_a_batch(batcher, busy):
  other = Function(lambda inputs: inputs, can_join=True)
  sizes = []
  joined = Function(
    lambda inputs: sizes.append(inputs["ids"].shape) or inputs, can_join=True
  )
  ids = [{"ids": np.zeros((1, n), np.int32)} for n in (3, 4, 3)]
  futures = [batcher.submit(joined, each) for each in ids]
  futures.append(batcher.submit(other, ids[0]))
  busy.gate.set()
  for future in futures:
    future.result(10)
  assert sizes == [(2, 3), (1, 4)]


def test_the_queue_is_bounded(batcher, busy):
  _submit(batcher, busy, *[b"a"] * 8)
  assert batcher.queued == 8
  with pytest.raises(QueueFull):
    batcher.submit(busy.function, _texts(b"b"))


def test_a_bad_request_does_not_spoil_the_others(batcher, busy):
  good, bad, fine = _submit(batcher, busy, b"good", b"bad", b"fine")
  busy.gate.set()
  assert good.result(10)["text"] == [b"good"]
  assert fine.result(10)["text"] == [b"fine"]
  with pytest.raises(ValueError, match="bad"):
    bad.result(10)


def test_outputs_of_another_number_of_rows_are_not_divided(batcher, busy):
  words = Function(
    lambda inputs: {
      "word": np.array(b" ".join(inputs["text"]).split(), object)
    },
    can_join=True,
  )
  futures = [batcher.submit(words, _texts(text)) for text in (b"a b", b"c")]
  busy.gate.set()
  answers = [future.result(10)["word"].tolist() for future in futures]
  assert answers == [[b"a", b"b"], [b"c"]]


def test_what_was_cancelled_does_not_run(batcher, busy):
  cancelled, other = _submit(batcher, busy, b"cancelled", b"other")
  assert cancelled.cancel()
  busy.gate.set()
  other.result(10)
  assert busy.batches == [[b"first"], [b"other"]]
  assert batcher.queued == 0


def test_close_answers_what_is_there(batcher, busy):
  [future] = _submit(batcher, busy, b"a")
  batcher.close()
  with pytest.raises(Closed):
    batcher.submit(busy.function, _texts(b"b"))
  busy.gate.set()
  assert future.result(10)["text"] == [b"a"]


def _lengths(*lengths):
  """Lengths that run with the first."""
  tasks = [
    batching._Task("", None, {}, 1, length, 0.0, None) for length in lengths
  ]
  return [task.length for task in batching.similar(tasks)]


def test_texts_of_similar_length_share_a_batch():
  # A call costs as much as 300 bytes.
  assert _lengths(10, 1000, 20, 1010, 30) == [10, 20, 30]
  assert _lengths(1000, 10, 20, 1010, 30) == [1000, 1010]
  assert _lengths(10, 290) == [10, 290]
  assert _lengths(10, 330) == [10]
  assert _lengths(5) == [5]
  assert _lengths(*[700] * 32) == [700] * 32


def test_a_division_into_batches_is_the_least_work():
  def work(groups):
    return sum(300 + len(group) * max(group) for group in groups)

  lengths = [3, 50, 200, 210, 400, 900]
  divisions = []
  for cuts in range(1 << 5):
    groups = [[lengths[0]]]
    for index, length in enumerate(lengths[1:]):
      if cuts >> index & 1:
        groups.append([])
      groups[-1].append(length)
    divisions.append(groups)
  best = min(divisions, key=work)
  for group in best:
    rest = [length for length in lengths if length not in group]
    assert _lengths(*group, *rest) == group


def test_long_and_short_texts_run_one_after_the_other(batcher, busy):
  texts = [b"a", b"b" * 2000, b"c", b"d" * 2000]
  futures = _submit(batcher, busy, *texts)
  busy.gate.set()
  for text, future in zip(texts, futures, strict=True):
    assert future.result(10)["text"] == [text]
  assert busy.batches[1:] == [[b"a", b"c"], [b"b" * 2000, b"d" * 2000]]


@pytest.mark.parametrize(
  ("array", "expected"),
  [
    (np.array([b"a", b"b"], object), 2),
    (np.array([[b"a", b"b", b"c"]], object), 3),  # choices
    (np.zeros((4, 128), np.int32), 4),
    (np.zeros((4, 3, 128), np.int32), 12),
    (np.zeros(5, np.float32), 5),
    (np.zeros(()), 1),
    (np.array([], object), 0),
  ],
)
def test_num_texts(array, expected):
  assert batching.num_texts({"x": array}) == expected


# Texts of several lengths, each of which has its own longest row.
REQUESTS = [
  [b"ab c d [MASK] e"],
  [b"a", b""],
  [b""],
  [b"e d [MASK] [MASK]"] * 2,
]
TASKS = [
  *("tagging", "choices", "masks"),
  *(
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("classification", "vectors", "questions")
  ),
]


@pytest.mark.parametrize("name", TASKS)
def test_an_answer_is_that_of_the_request_alone(every_task, name):
  task, exported = every_task[name]
  signature = exported.functions["serving_default"]
  function = to_function("serving_default", signature)
  assert function.can_join
  requests = [
    {
      key: np.array(
        [[text, b"b"] if spec.shape.rank == 2 else text for text in texts],
        object,
      )
      for key, spec in task.texts.items()
    }
    for texts in REQUESTS
  ]
  joined = {
    key: np.concatenate([request[key] for request in requests])
    for key in requests[0]
  }
  rows = [len(texts) for texts in REQUESTS]
  parts = batching.split(function, function.run(joined), rows)
  for request, part in zip(requests, parts, strict=True):
    for key, expected in function.run(request).items():
      assert part[key].shape == expected.shape, key
      if expected.dtype == object:
        assert part[key].tolist() == expected.tolist()
      elif key not in ("start", "end", "starts", "ends"):  # may occur twice
        np.testing.assert_allclose(part[key], expected, atol=1e-5)


def test_records_are_not_joined(every_task):
  functions = every_task["tagging"][1].functions
  is_joined = {
    name: to_function(name, signature).can_join
    for name, signature in functions.items()
  }
  assert is_joined == {
    "serving_default": True,
    "serving_features": True,
    "serving_examples": False,
  }


def test_a_function_without_rows_is_not_joined():
  function = tf.function(lambda x: {"y": 2 * x})
  signature = function.get_concrete_function(
    x=tf.TensorSpec([], tf.float32, name="x")
  )
  assert not to_function("serving_default", signature).can_join
