"""Versions of models, and the queues of their workers."""

import threading
from types import SimpleNamespace

import pytest

from data.features import TOKENS
from serving.server import RestError
from serving.server import version as module
from serving.server.version import Spec, Version, Workers
from tasks.open import open_model
from tests.serving.server import stand_in


@pytest.fixture(name="client", scope="module")
def _client(tmp_path_factory, folders):
  """A client of a tagger."""
  version = Version(open_model(str(folders["tagging"]), "litert"), 512)
  with stand_in.toy(tmp_path_factory.mktemp("toy"), version=version) as client:
    yield client


def _rows(*rows):
  return {"signature_name": "serving_features", "instances": [*rows]}


ROW = dict.fromkeys(TOKENS, [1] * 3)
REFUSED = [
  (_rows(ROW | {"input_ids": [1 << 20] * 3}), "the model refuses a row"),
  (_rows(ROW | {"input_ids": [1, -1, 1]}), "the model refuses a row"),
  (_rows(ROW | {"input_ids": [1] * 2}), "the model refuses a row"),
  (_rows({name: [] for name in TOKENS}), "the model refuses a row"),
]


@pytest.mark.parametrize(("document", "message"), REFUSED)
def test_an_input_that_the_model_refuses_gets_400(client, document, message):
  status, answer = client.ask(document)
  assert status == 400 and message in answer["error"]
  assert "Node" not in answer["error"]  # LiteRT also names a node
  assert client.ask({"instances": ["ab c"]})[0] == 200


def test_metadata_describe_texts_and_rows(client):
  metadata = client.get("/v1/models/toy/metadata")[1]["metadata"]
  signatures = metadata["signature_def"]["signature_def"]
  assert sorted(signatures) == ["serving_default", "serving_features"]
  default = signatures["serving_default"]
  [tokens] = default["inputs"].values()
  shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
  assert (tokens["dtype"], tokens["tensor_shape"]) == ("DT_STRING", shape)
  kinds = {
    name: (info["dtype"], len(info["tensor_shape"]["dim"]))
    for name, info in default["outputs"].items()
  }
  assert "entities" not in kinds  # objects have no TensorFlow type
  assert kinds["tags"] == ("DT_STRING", 2)
  assert kinds["start"] == ("DT_INT32", 2)
  assert kinds["probabilities"] == ("DT_FLOAT", 3)
  assert kinds["num_words"] == ("DT_INT32", 1)
  [logits] = signatures["serving_features"]["outputs"].values()
  sizes = [size["size"] for size in logits["tensor_shape"]["dim"]]
  assert sizes == ["-1", "-1", "3"]


class _Model:
  """A TextModel that returns rows and texts unchanged."""

  def __init__(self, max_rows=1):
    self.answers = SimpleNamespace(
      task="multiple_choice",
      config=SimpleNamespace(max_seq_length=9, labels=["a"]),
      inputs={"text": 0, "text_pair": 0, "choices": 1},
      optional=frozenset(["text_pair"]),
      word_lists=frozenset(),
    )
    shapes = {"features": {"input_ids": 1}, "outputs": {"logits": [-1, 3]}}
    self.engine = SimpleNamespace(
      name="an engine", max_rows=max_rows, run=list, **shapes
    )

  stream = iter

  def warm_up(self):
    return {"is_next": None, "is_right": True}


@pytest.mark.parametrize(("max_rows", "number"), [(1, 4), (32, 1)])
def test_an_engine_batching_rows_has_one_worker(monkeypatch, max_rows, number):
  monkeypatch.setattr(module, "num_cores", lambda: 4)
  monkeypatch.setattr(module, "Workers", lambda *given: given)
  version = Version(_Model(max_rows), 7, print)
  assert version.workers == (7, number, max_rows, print)


def test_a_version_describes_its_inputs_outputs_and_facts():
  version = Version(_Model(), 9)
  assert version.specs["serving_default"] == {
    "text": Spec("string", 1),
    "text_pair": Spec("string", 1, is_optional=True),
    "choices": Spec("string", 2),
  }
  facts = {"task": "multiple choice", "engine": "an engine"}
  assert version.facts == facts | {"max_seq_length": 9, "labels": ["a"]}
  # The warm-up answers None for is_next, so the type of is_next is unknown.
  assert [*version.signature_def["serving_default"]["outputs"]] == ["is_right"]


@pytest.mark.parametrize("positions", [[-1], [0, 3], [0, 2]])
def test_masked_positions_outside_their_row_are_refused(positions):
  run = Version(_Model(), 9).functions["serving_features"]
  row = ROW | {"masked_lm_positions": positions}
  if {*positions} <= {0, 1, 2}:
    [result] = run([row])
    assert result["masked_lm_positions"].tolist() == positions
  else:
    with pytest.raises(RestError, match="the model refuses a row"):
      next(run([row]))


# --- Workers ---------------------------------------------------------------


class _Echo:
  """A function that records calls and waits for permission to continue."""

  def __init__(self):
    self.gate, self.started = threading.Event(), threading.Event()
    self.calls = []

  def __call__(self, examples):
    self.calls.append(list(examples))
    self.started.set()
    assert self.gate.wait(10)
    if "bad" in examples:
      raise ValueError("bad")
    return [example.upper() for example in examples]


@pytest.fixture(name="workers")
def _workers():
  workers = Workers(capacity=8, max_rows=4, number=1)
  yield workers
  workers.close()


@pytest.fixture(name="busy")
def _busy(workers):
  """Yields a function whose first call is running."""
  echo = _Echo()
  first = workers.submit(echo, ["first"])
  assert echo.started.wait(10)
  yield echo
  echo.gate.set()
  assert first.result(10) == ["FIRST"]


CALLS = {
  (1, 2): [["1", "2", "2"]],
  (3, 2, 1, 2): [["3", "3", "3", "1"], ["2"] * 4],
  (7,): [["7"] * 7],  # one request may exceed max_rows
}


@pytest.mark.parametrize(("sizes", "calls"), CALLS.items())
def test_a_call_joins_the_oldest_request_with_requests_that_fit_max_rows(
  workers, busy, sizes, calls
):
  futures = [workers.submit(busy, [f"{n}"] * n) for n in sizes]
  busy.gate.set()
  assert [f.result(10) for f in futures] == [[f"{n}"] * n for n in sizes]
  assert busy.calls == [["first"], *calls]


def test_only_requests_of_one_function_are_joined(workers, busy):
  other = _Echo()
  other.gate.set()
  futures = [workers.submit(f, ["a"]) for f in (busy, other, busy)]
  busy.gate.set()
  assert [f.result(10) for f in futures] == [["A"]] * 3
  assert (busy.calls[1:], other.calls) == ([["a", "a"]], [["a"]])


def test_an_invalid_request_does_not_fail_other_requests(workers, busy):
  good, bad, fine = (workers.submit(busy, [t]) for t in ("good", "bad", "fine"))
  busy.gate.set()
  assert (good.result(10), fine.result(10)) == (["GOOD"], ["FINE"])
  with pytest.raises(ValueError, match="bad"):
    bad.result(10)


def _recorder():
  """Returns a function that yields answers, and a list of what it computed."""
  computed: list[str] = []

  def letters(examples):
    for example in examples:
      computed.append(example)
      yield example.upper()

  return letters, computed


# Without batches a turn has two answers here; with batches of two it has eight.
@pytest.mark.parametrize(
  ("max_rows", "texts", "order"),
  [(1, ["abcde", "xyz", "q"], "abxyqcdze"), (2, ["abcdefghi", "q"], None)],
)
def test_large_requests_take_turns(monkeypatch, max_rows, texts, order):
  monkeypatch.setattr(module, "_TURN", 2)
  letters, computed = _recorder()
  sizes = []  # of batches; later turns of a request are no new batch
  observer = SimpleNamespace(observe=sizes.append)
  workers = Workers(99, 1, max_rows, observer)
  gate = threading.Event()
  workers.submit(lambda _: [gate.wait(10)], [0])
  futures = [workers.submit(letters, text) for text in texts]
  gate.set()
  answers = ["".join(future.result(10)) for future in futures]
  assert answers == [text.upper() for text in texts]
  assert "".join(computed) == (order or "abcdefghqi")
  assert sizes == [1, *map(len, texts)]
  workers.close()


def test_a_running_request_ends_if_it_is_cancelled(monkeypatch):
  monkeypatch.setattr(module, "_TURN", 1)
  letters, computed = _recorder()
  workers = Workers(capacity=9, number=1)
  begun, gate = threading.Event(), threading.Event()

  def slow(examples):
    for answer in letters(examples):
      begun.set()
      assert gate.wait(10)
      yield answer

  future = workers.submit(slow, "abc")
  assert begun.wait(10)
  assert future.cancel()
  gate.set()
  assert workers.submit(list, ["z"]).result(10) == ["z"]
  assert computed == ["a"]
  workers.close()


def test_a_cancelled_request_leaves_the_queue_and_does_not_run(workers, busy):
  futures = [workers.submit(busy, ["a"] * 4) for _ in range(2)]
  assert workers.queued == 8
  assert futures[0].cancel()
  assert workers.queued == 4
  fresh = workers.submit(busy, ["b"] * 4)
  busy.gate.set()
  assert (futures[1].result(10), fresh.result(10)) == (["A"] * 4, ["B"] * 4)
  assert busy.calls == [["first"], ["a"] * 4, ["b"] * 4]


def test_closed_workers_answer_all_requests_before_their_threads_end():
  before, gate = {*threading.enumerate()}, threading.Event()
  workers = Workers(capacity=8, number=3)
  workers.submit(lambda _: [gate.wait(10)], ["a"])
  waiting = workers.submit(list, ["b"])
  started = {*threading.enumerate()} - before
  assert len(started) == 3
  workers.close()
  gate.set()
  assert waiting.result(10) == ["b"]
  for thread in started:
    thread.join(10)
    assert not thread.is_alive()
  # A request may find a version just before the server unloads it.
  assert workers.submit(list, ["c"]).result(10) == ["c"]
