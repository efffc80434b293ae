"""Engines: equal answers, batches, threads, failing servers."""

import base64
import contextlib
import gc
import http.client
import http.server
import json
import os
import shutil
import threading
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from data.features import TOKENS
from predictor import Predictor
from serving import engines, savedmodel, tflite
from serving.remote import RemoteEngine, RemoteError
from serving.server.version import Version
from serving.tflite import LiteRtEngine
from storage import UserError
from tests import programs
from tests.serving import tasks
from tests.serving.server import stand_in as server

TEXTS = ["ab c", "a b . c d e a b c d e", "abcde", "e [MASK] a [MASK]", "", "b"]
QUICK = ("classification of pairs", "tagging", "questions")


@contextlib.contextmanager
def serving(model, folder):
  """Runs serve.py's server with a model and yields the URL."""
  settings = server.SETTINGS._replace(max_request_bytes=1_000_000)
  with server.toy(
    folder, settings, Version(model, settings.max_queue_size)
  ) as client:
    yield f"http://127.0.0.1:{client.port}/v1/models/toy"


@pytest.mark.parametrize("name", tasks.slow_but(QUICK))
def test_all_engines_give_the_same_answers(every_task, folders, tmp_path, name):
  model = savedmodel.text_model(every_task[name])  # Keras
  examples = tasks.make_examples(model.answers, TEXTS)
  expected = model(examples)
  columns = tasks.columns(examples)
  with serving(model, tmp_path) as url:
    predictors = [Predictor(folders[name], k) for k in ("savedmodel", "litert")]
    for predict in (*predictors, Predictor(url, files=folders[name])):
      for batch_size in (256, 1, 4):
        answers = predict(batch_size=batch_size, **columns)
        for answer, other in zip(answers, expected, strict=True):
          tasks.assert_same(answer, other)


def _row(*shape, **more):
  """Returns a row of ones; `more` adds or replaces inputs."""
  return dict.fromkeys(TOKENS, np.ones(shape, np.int32)) | more


# --- Batches ---------------------------------------------------------------


def test_a_batch_has_rows_of_similar_length_and_equal_numbers_of_choices():
  rows = [_row(n) for n in (300, 1, 299, 2)] * 8
  # A batch gets at least 8 rows, even if these exceed max_tokens.
  batches = list(engines.batches(rows, max_tokens=1024))
  short = [*range(1, 32, 4), *range(3, 32, 4)]  # lengths 1 and 2
  assert batches == [short, [*range(2, 32, 4)], [*range(0, 32, 4)]]
  rows = [_row(2, 4), _row(3, 4), _row(2, 5)]  # 2 or 3 choices: two batches
  assert list(engines.batches(rows, max_tokens=1024)) == [[0, 2], [1]]


def test_long_rows_run_eight_at_a_time_and_short_rows_thirty_two():
  rows = [_row(4)] * 70 + [_row(500)] * 17
  sizes = [len(batch) for batch in engines.batches(rows, 1024)]
  assert sizes == [32, 32, 8, 8, 7]  # the third has 6 short and 2 long rows


class _Sums(engines.Batches):
  """Sums ids by token and by row, and returns the masked positions."""

  def __init__(self):
    outputs = {"sums": [-1, -1], "total": [-1, 2], "masked_lm": [-1, -1]}
    super().__init__({"input_ids": 1}, outputs)
    self.shapes = []

  def _call(self, inputs):
    ids, positions = inputs["input_ids"], inputs["masked_lm_positions"]
    self.shapes.append(ids.shape)
    total = ids.sum(1)
    return {
      "sums": ids.cumsum(1),
      "total": np.stack([total, -total], 1),
      "masked_lm": positions,
    }


def test_a_batch_returns_the_outputs_of_each_row_in_order():
  sizes, engine = (5, 1, 40, 2), _Sums()
  rows = (_row(n, masked_lm_positions=np.arange(n // 2 + 1)) for n in sizes)
  for size, outputs in zip(sizes, engine.run(rows), strict=True):
    assert outputs["sums"].tolist() == [*range(1, size + 1)]
    assert outputs["total"].tolist() == [size, -size]  # not cut to one token
    assert outputs["masked_lm"].tolist() == [*range(size // 2 + 1)]
  assert engine.shapes == [(4, 40)]


def test_memory_holds_fewer_rows_if_they_have_many_masks():
  for number, in_memory in ((1000, 3), (1, 128)):
    taken, engine = [], _Sums()
    row = _row(1000, masked_lm_positions=np.arange(number))
    outputs = engine.run(taken.append(n) or row for n in range(200))
    assert next(outputs)["masked_lm"].shape == (number,)
    assert len(taken) == in_memory
    assert len([*outputs]) == 199


@pytest.fixture(name="with_gpu")
def _with_gpu(monkeypatch):
  """Makes TensorFlow list a GPU, and a Thread run its function in start()."""
  listed = "tensorflow.config.list_physical_devices"
  monkeypatch.setattr(listed, lambda kind: [kind])
  make = lambda target, daemon: SimpleNamespace(start=target)  # noqa: E731
  monkeypatch.setattr(savedmodel, "Thread", make)


def test_a_gpu_pads_small_batches_to_the_shapes_of_compiled_programs(
  every_task, with_gpu, monkeypatch
):
  monkeypatch.setattr(savedmodel, "_FEW_ROWS", (2,))
  monkeypatch.setattr(savedmodel, "_SHORTEST", 4)
  model = savedmodel.text_model(every_task["tagging"])
  engine = model.engine
  assert (engine.max_tokens, engine.max_rows) == (32_768, 512)  # CPU: 1024, 32
  rows = [_row(length) for length in (3, 8, 9, 12)]
  expected = [*engine.run(rows)]
  model.warm_up()
  assert [*engine._programs] == [(2, 4), (2, 8), (2, 12)]
  calls = []

  def noted(shape, program):
    return lambda **inputs: calls.append(shape) or program(**inputs)

  engine._programs = {x: noted(x, run) for x, run in engine._programs.items()}
  for batch in ([0], [2], [0, 1], [3, 1], [0, 1, 2]):
    outputs = engine.run([rows[i] for i in batch])
    for i, output in zip(batch, outputs, strict=True):
      assert output["logits"].shape == expected[i]["logits"].shape
      np.testing.assert_allclose(
        output["logits"], expected[i]["logits"], rtol=1e-4, atol=1e-5
      )
  assert calls == [(2, 4), (2, 12), (2, 8), (2, 12)]  # none for three rows


def test_models_with_masked_positions_or_choices_have_no_compiled_programs(
  every_task, with_gpu
):
  for name in ("masks", "choices"):
    engine = savedmodel.text_model(every_task[name]).engine
    engine.warm_up()
    assert not engine._programs, name


def test_a_masked_position_outside_its_row_is_refused(every_task):
  engine = savedmodel.text_model(every_task["masks"]).engine
  good = _row(3, masked_lm_positions=np.array([1]))
  for position in (3, -1, 1 << 20):
    bad = _row(3, masked_lm_positions=np.array([position]))
    with pytest.raises(UserError, match="beyond the tokens of a row"):
      list(engine.run([bad, good]))


# --- LiteRT ----------------------------------------------------------------


class _Interpreter:
  """A stand-in interpreter, which fails if two threads call it at once."""

  def __init__(self, threads):
    self.threads, self.calls, self._busy = threads, 0, threading.Lock()
    self.has_failed = False

  def get_input_details(self):
    return {"x": {"shape_signature": np.array([-1, -1])}}

  get_output_details = get_input_details

  def __call__(self, x):
    assert self._busy.acquire(blocking=False), "two threads in an interpreter"
    time.sleep(0.002)
    assert not self.has_failed
    self.calls += 1
    self.has_failed = (x < 0).any()
    self._busy.release()
    if self.has_failed:
      raise ValueError("out of range")
    return {"x": 2 * x}


@pytest.fixture(name="interpreters")
def _interpreters(monkeypatch, tmp_path):
  """Returns the interpreters in loading order, with four cores."""
  loaded = []

  def load(interpreter):
    interpreter.function = _Interpreter(interpreter._num_threads)
    loaded.append(interpreter.function)

  monkeypatch.chdir(tmp_path)
  for name in ("file", "model_float16.tflite"):
    Path(name).touch()
  monkeypatch.setattr(tflite._Interpreter, "_load", load)
  monkeypatch.setattr("os.path.getsize", lambda file: 1)
  monkeypatch.setattr(tflite, "num_cores", lambda: 4)
  return loaded


def _numbers(*values):
  return [{"x": np.array([value])} for value in values]


def _values(outputs):
  return [output["x"].item() for output in outputs]


def test_num_cores_excludes_cores_that_the_process_may_not_use(monkeypatch):
  monkeypatch.setattr("os.sched_getaffinity", lambda _: {1, 5, 6})
  quotas = {"max 1000": 3, "1500 1000": 2, "9000 1000": 3, "5 1000": 1}
  for quota, cores in quotas.items():  # of a container
    monkeypatch.setattr(Path, "read_text", lambda _, text=quota: text)
    assert engines.num_cores() == cores


def test_one_row_uses_all_cores_and_several_rows_use_a_core_each(interpreters):
  engine = LiteRtEngine("file")
  assert _values(engine.run(_numbers(3))) == [6]
  assert [i.threads for i in interpreters] == [4]
  assert _values(engine.run(_numbers(*range(20)))) == [*range(0, 40, 2)]
  assert [i.threads for i in interpreters] == [4, 1, 1, 1, 1]
  assert interpreters[0].calls == 1
  assert list(engine.run([])) == []


def test_a_short_request_does_not_wait_for_all_rows_of_a_long_one(interpreters):
  engine = LiteRtEngine("file")
  results = engine.run(_numbers(*range(1000)))
  assert next(results)["x"] == 0  # the request has begun
  assert _values(engine.run(_numbers(1, 2))) == [2, 4]
  calls = sum(interpreter.calls for interpreter in interpreters)
  assert calls < 40  # and not 1000
  assert _values(results) == [*range(2, 2000, 2)]


def test_an_interpreter_computes_for_one_thread_at_a_time(interpreters):
  engine, all_at_once = LiteRtEngine("file"), threading.Barrier(8)
  sizes = (1, 3, 1, 1, 2)

  def ask(number):
    all_at_once.wait(10)
    return [_values(engine.run(_numbers(*range(size)))) for size in sizes]

  with ThreadPoolExecutor(8) as pool:
    results = list(pool.map(ask, range(8)))
  assert results == [[[*range(0, 2 * size, 2)] for size in sizes]] * 8
  assert len(interpreters) == 5  # one for four cores, four for one core each
  # After many requests, a single row uses all cores again.
  before = interpreters[0].calls
  assert _values(engine.run(_numbers(1))) == [2]
  assert interpreters[0].calls == before + 1


@pytest.mark.parametrize("megabytes", [1, 900])  # 900: one interpreter for all
def test_a_refused_row_changes_no_later_answer_or_error(
  interpreters, monkeypatch, megabytes
):
  monkeypatch.setattr("os.path.getsize", lambda file: megabytes << 20)
  engine = LiteRtEngine("file")
  for values in ([-1], [-1, -1, 3]):
    with pytest.raises(UserError, match=r"^out of range$"):
      list(engine.run(_numbers(*values)))
    engine._pool.submit(int).result()  # after the rows that ran before it
    server.wait_until(lambda: not engine._num_running)
    assert not engine._idle.locked()
    # On all cores. An interpreter that has failed would repeat old errors.
    assert _values(engine.run(_numbers(5))) == [10]
    assert engine._alone.function.threads == 4


# Size in MB, threads of the other interpreters, file. Copies of the weights may
# take 4 * 512 MB: 400 MB leave room for four others, 600 MB for two.
LARGE = [
  (400, [1] * 4, "file"),
  (600, [2] * 2, "file"),
  (150, [2] * 2, "model_float16.tflite"),  # 600 MB when unpacked
  (9000, [], "file"),
]


@pytest.mark.parametrize(("size", "others", "file"), LARGE)
def test_a_model_with_large_weights_has_fewer_interpreters(
  interpreters, monkeypatch, size, others, file
):
  monkeypatch.setattr("os.path.getsize", lambda file: size << 20)
  engine = LiteRtEngine(file)
  assert engine._pool._max_workers == (len(others) or 1)
  with ThreadPoolExecutor(4) as pool:
    rows = [_numbers(*range(n)) for n in range(9)]
    for n, outputs in enumerate(pool.map(engine.run, rows)):
      assert _values(outputs) == [*range(0, 2 * n, 2)]
  threads = [i.threads for i in interpreters]
  assert threads == [4, *others[: len(threads) - 1]]  # loaded on first use


def test_a_row_does_not_wait_while_another_row_uses_all_cores(interpreters):
  engine = LiteRtEngine("file")
  with engine._idle:  # a single row is running
    assert _values(engine.run(_numbers(1))) == [2]
  assert interpreters[0].calls == 0


@pytest.mark.parametrize("kind", ["litert", "savedmodel"])
def test_a_row_that_the_model_does_not_take_is_refused(folders, kind):
  engine = Predictor(folders["tagging"], kind)._answer.engine
  good, out_of_range = _row(3), np.full(3, 1 << 20, np.int32)
  for bad in (_row(3, input_ids=out_of_range), _row(tasks.T + 9)):
    with pytest.raises(UserError):
      list(engine.run([bad]))
    assert len(list(engine.run([good, good]))) == 2  # the engine still works


@pytest.mark.skipif(
  not os.path.exists(tflite._OPEN_FILES), reason="needs /proc"
)
def test_an_open_model_gives_the_same_answers_when_its_folder_changes(
  folders, tmp_path
):
  shutil.copytree(folders["tagging"], tmp_path / "1")
  predict = Predictor(tmp_path / "1", "litert")
  expected = predict(["ab"])
  shutil.rmtree(tmp_path / "1")
  shutil.copytree(folders["classification"], tmp_path / "1")
  assert predict(["ab"] * 3) == expected * 3  # opens more interpreters


def test_a_model_that_is_gone_has_closed_its_file(interpreters, monkeypatch):
  closed = []
  monkeypatch.setattr("os.close", closed.append)
  engine = LiteRtEngine("file")
  _, descriptor = engine._file
  del engine
  gc.collect()
  assert descriptor in closed


def test_a_relative_path_stays_valid_in_another_working_directory(
  folders, monkeypatch
):
  monkeypatch.setattr(tflite, "_OPEN_FILES", "/none")  # as on macOS
  monkeypatch.chdir(folders["tagging"])
  predict = Predictor(".", "litert")
  expected = predict(["ab"])
  monkeypatch.chdir("/")
  assert predict(["ab"] * 3) == expected * 3


CORRUPT = r"""
task.json | [] | task\.json.*export the model again
task.json | {"task": "ner", "x": 1} | the task or a setting in task\.json
model_float32.tflite | [] | model_float32.tflite is damaged, export
tokenizer_config.json | {"do_lower_case": true} | 'model_max_length'.: export
"""


@pytest.mark.parametrize("case", CORRUPT.strip().splitlines())
def test_a_corrupt_file_is_reported(folders, tmp_path, case):
  name, content, message = map(str.strip, case.split("|"))
  shutil.copytree(folders["tagging"], tmp_path, dirs_exist_ok=True)
  (tmp_path / name).write_text(content)
  with pytest.raises(UserError, match=message):
    Predictor(tmp_path, "litert")


def test_a_half_copied_savedmodel_is_reported(folders, tmp_path):
  shutil.copytree(folders["tagging"], tmp_path, dirs_exist_ok=True)
  for path in tmp_path.glob("variables/*0*"):
    path.write_bytes(path.read_bytes()[:99])
  with pytest.raises(UserError, match=r"is damaged, export it again: \S"):
    Predictor(tmp_path, "savedmodel")


# --- Servers other than serve.py -------------------------------------------


class _Stub(http.server.BaseHTTPRequestHandler):
  """Imitates TF Serving; `server.answer` computes each response."""

  def do_GET(self):
    self._answer(None)

  def do_POST(self):
    size = int(self.headers["content-length"])
    self._answer(json.loads(self.rfile.read(size)))

  def _answer(self, body):
    self.server.logins.append(self.headers["authorization"])
    status, value = self.server.answer(self.path, body)
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    with contextlib.suppress(OSError):  # the client is gone
      self.send_response(status)
      self.send_header("Location", "/elsewhere")
      self.end_headers()
      self.wfile.write(content)

  def log_message(self, *_):
    pass


@pytest.fixture(name="stub")
def _stub():
  """A server with a `url`; set `answer` to a function of path and body."""
  stub = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Stub)
  stub.logins = []
  stub.url = f"http://127.0.0.1:{stub.server_port}/v1/models/a"
  thread = threading.Thread(target=stub.serve_forever)
  thread.start()
  yield stub
  stub.shutdown()
  thread.join()
  stub.server_close()


def _tensors(shapes):
  return {
    name: {"tensor_shape": {"dim": [{"size": f"{n}"} for n in shape]}}
    for name, shape in shapes.items()
  }


def _metadata(**outputs):
  inputs = _tensors(dict.fromkeys(TOKENS, (-1, -1)))
  signature = {"inputs": inputs, "outputs": _tensors(outputs)}
  signatures = {"signature_def": {"serving_features": signature}}
  return {"metadata": {"signature_def": signatures}}


def test_rows_are_sent_as_columns_to_the_version_in_the_url(stub):
  requests = []

  def answer(path, body):
    requests.append((path, body))
    if body is None:
      return 200, _metadata(start_logits=(-1, -1), end_logits=(-1, -1))
    ids = body["inputs"]["input_ids"]
    return 200, {"outputs": {"start_logits": ids, "end_logits": ids}}

  stub.answer = answer
  engine = RemoteEngine(f"{stub.url}é%C3%A9/versions/3/")
  assert engine.features == dict.fromkeys(TOKENS, 1)
  rows = [_row(n, input_ids=np.full(n, n)) for n in (1, 3, 2)]
  outputs = list(engine.run(rows))
  assert [o["end_logits"].tolist() for o in outputs] == [[1], [3] * 3, [2] * 2]
  paths = [path.removeprefix("/v1/models/a") for path, _ in requests]
  version = "%C3%A9%C3%A9/versions/3"
  assert paths == [f"{version}/metadata", f"{version}:predict"]
  body = requests[1][1]
  assert body["signature_name"] == "serving_features"
  assert body["inputs"]["input_ids"] == [[1, 0, 0], [2, 2, 0], [3, 3, 3]]


def _answer_rows(stub, *answer):
  """Makes the stub answer rows with this status and value."""
  metadata = (200, _metadata(logits=(-1, 2)))
  stub.answer = lambda path, body: answer if body else metadata


def test_a_user_and_a_password_in_the_url_are_sent_and_not_shown(stub):
  _answer_rows(stub, 200, {"outputs": [[0.25, 0.75]]})
  RemoteEngine(stub.url)
  url = stub.url.replace("http://", "http://ann:se%40cret@")
  [outputs] = RemoteEngine(f"{url}:predict").run([_row(1)])  # as curl needs it
  # A single output has no name. It is not cut to one label.
  assert outputs["logits"].tolist() == [0.25, 0.75]
  login = base64.b64encode(b"ann:se@cret").decode()
  assert stub.logins == [None, *[f"Basic {login}"] * 2]
  stub.answer = lambda *_: (401, b"")
  with pytest.raises(RemoteError, match=f"^{stub.url}: 401, Unauthorized$"):
    RemoteEngine(url)
  stub.answer = lambda path, _: (404 if path == "/elsewhere" else 302, b"")
  with pytest.raises(RemoteError, match="404, Not Found"):
    RemoteEngine(url)
  assert stub.logins[-2:] == [f"Basic {login}", None]  # none after redirection


LATEST = "Servable not found for request: Latest"
NO_MODEL = "is not an export of this project"
NO_ANSWER = "/a answered something else than serving_features"
ANSWERS = [
  ((404, {"error": LATEST}), RemoteError, f"404, {LATEST}"),
  ((500, b"<html>\nbusy"), RemoteError, "500, Internal Server Error"),
  ((502, b""), RemoteError, "502, Bad Gateway"),
  ((400, {"error": "indices[0] = 9"}), UserError, r"/a: indices\[0\] = 9"),
  ((200, b"<html>"), RemoteError, "/a did not answer with JSON"),
  ((200, b"[" * 99_999), RemoteError, "/a did not answer with JSON"),
  ((200, {"outputs": [[1], [1, 2]]}), RemoteError, NO_ANSWER),
]


@pytest.mark.parametrize(("answer", "error", "message"), ANSWERS)
def test_an_error_of_the_server_is_passed_on(stub, answer, error, message):
  _answer_rows(stub, *answer)
  engine = RemoteEngine(stub.url)
  with pytest.raises(error, match=message):
    list(engine.run([_row(1)]))


def test_an_error_whose_text_breaks_off_is_passed_on(stub, monkeypatch):
  _answer_rows(stub, 503, {"error": "busy"})
  engine = RemoteEngine(stub.url)
  error = urllib.error.HTTPError
  broken = mock.Mock(side_effect=http.client.IncompleteRead(b""))
  monkeypatch.setattr(error, "read", broken, raising=False)
  with pytest.raises(RemoteError, match="503, Service Unavailable"):
    list(engine.run([_row(1)]))


NO_SIGNATURE = {"metadata": {"signature_def": {"signature_def": {}}}}
METADATA = [
  ((400, {"error": "no label"}), "a: 400, no label"),  # no row was sent yet
  ((200, []), NO_MODEL),
  ((200, NO_SIGNATURE), NO_MODEL),
]


@pytest.mark.parametrize(("answer", "message"), METADATA)
def test_a_url_without_a_model_is_reported(stub, answer, message):
  stub.answer = lambda path, body: answer
  with pytest.raises(RemoteError, match=message):
    RemoteEngine(stub.url)


def test_a_server_of_another_model_is_refused(stub, folders):
  labels = len(tasks.TAGS)

  def ask(**outputs):
    stub.answer = lambda path, body: (200, _metadata(**outputs))
    Predictor(stub.url, files=folders["tagging"])

  ask(logits=(-1, -1, labels))
  message = f"has the outputs .*export .* logits and {labels} labels"
  for outputs in ({"logits": (-1, -1, labels + 1)}, {"values": (-1, 8)}):
    with pytest.raises(UserError, match=message):
      ask(**outputs)


def test_a_server_that_is_late_or_unreachable_is_reported(stub, folders):
  late = threading.Event()
  stub.answer = lambda path, body: (200, {"late": late.wait(20)})
  with pytest.raises(RemoteError, match=r"did not answer within 0\.1 s"):
    Predictor(stub.url, files=folders["tagging"], timeout=0.1)
  late.set()
  with pytest.raises(RemoteError, match=r"cannot be reached: .*refused"):
    Predictor("http://127.0.0.1:9/v1/models/a", files=folders["tagging"])


def test_a_savedmodel_refuses_to_answer_after_a_fork(
  folders, tmp_path, monkeypatch
):
  monkeypatch.setattr(savedmodel, "_owners", set())
  (tmp_path / "run.json").touch()  # makes it the output folder of a training
  predict = Predictor(folders["tagging"], "savedmodel")
  monkeypatch.setattr("os.getpid", lambda: -1)
  for call in (
    lambda: predict(["ab"]),
    lambda: Predictor(folders["tagging"], "savedmodel"),
    lambda: Predictor(tmp_path),
  ):
    with pytest.raises(UserError, match="start processes by spawn, or use"):
      call()
  # Pretend that the process forked before it opened a model.
  monkeypatch.setattr(savedmodel, "_owners", set())
  assert Predictor(folders["tagging"], "savedmodel")(["ab"])


_FORK = """
import os, signal, sys
from concurrent.futures import ThreadPoolExecutor
from predictor import Predictor

def work(_=None):
  return predict(["ab", "a b", "b"]), predict(["ab"])

predict = Predictor(sys.argv[1], "litert")
answers = work()
if not os.fork():
  signal.alarm(20)
  # A thread of the parent may be in the interpreter, so it is not reused.
  is_reused = predict._answer.engine._alone.function
  with ThreadPoolExecutor(8) as pool:
    results = [*pool.map(work, range(16))]
  os._exit(bool(is_reused) or results != [answers] * 16)
os._exit(os.wait()[1] != 0)
"""


def test_litert_answers_in_threads_of_a_forked_process(folders):
  done = programs.python(["-c", _FORK, folders["tagging"]], timeout=120)
  assert done.returncode == 0, done.stderr


def test_a_served_model_leaves_gpu_memory_to_other_processes(
  folders, monkeypatch, with_gpu
):
  grown = []
  name = "tensorflow.config.experimental.set_memory_growth"
  monkeypatch.setattr(name, lambda *given: grown.append(given))
  savedmodel.load(f"{folders['tagging']}/saved_model.pb")
  assert grown == [("GPU", True)]
