"""Parts of the app without a server: threads, page, deadlines, readiness."""

import asyncio
import json
import threading
from pathlib import Path
from types import SimpleNamespace

import h11
import pytest

from serving.server import app as module
from serving.server import connections
from serving.server.app import App, Metrics
from serving.server.models import Model
from tests.serving.server.stand_in import SETTINGS, Version


@pytest.fixture(name="model")
def _model(tmp_path):
  (tmp_path / "toy" / "1").mkdir(parents=True)
  model = Model("toy", str(tmp_path / "toy"), 1, Version)
  model.poll()
  yield model
  model.versions[1].workers.close()


def _request(app, path, method="GET", document=None):
  """Returns the status and body of a response."""
  body = json.dumps(document).encode()
  scope = {"path": path, "raw_path": path.encode(), "method": method}
  scope["headers"] = []
  sent = []

  async def receive():
    return {"type": "http.request", "body": body, "more_body": False}

  async def send(message):
    sent.append(message)

  asyncio.run(app(scope, receive, send))
  return sent[0]["status"], sent[1]["body"]


def test_only_large_bodies_are_converted_in_a_thread():
  async def convert(size):
    return await module._convert(size, threading.get_ident)

  own = threading.get_ident()
  for size, is_own in ((0, 1), (2**15 - 1, 1), (2**15, 0), (2**20, 0)):
    assert (asyncio.run(convert(size)) == own) == bool(is_own)


def test_the_files_of_the_page_are_read_from_disk_only_once(model, monkeypatch):
  app = App({"toy": model}, Metrics(), SETTINGS)
  before = {
    path: _request(app, path) for path in app._get if path != "/metrics"
  }
  monkeypatch.setattr(Path, "read_bytes", None)
  monkeypatch.setattr(Path, "open", None)
  for path, answer in before.items():
    assert _request(app, path) == answer


class _Timer:
  """A scheduled call of the event loop."""

  def __init__(self, seconds, function):
    self.seconds, self.function, self.is_over = seconds, function, False

  def cancel(self):
    self.is_over = True


def test_a_request_has_one_deadline_from_its_first_byte_on():
  protocol = connections._Protocol.__new__(connections._Protocol)
  timers = []

  def call_later(seconds, function):
    timers.append(_Timer(seconds, function))
    return timers[-1]

  protocol.seconds = 9.0
  protocol.loop = SimpleNamespace(call_later=call_later)
  protocol.transport = SimpleNamespace(abort="abort")
  protocol.conn = SimpleNamespace(their_state=h11.IDLE)
  for state, number, is_over in (
    (h11.IDLE, 1, False),
    (h11.IDLE, 1, False),
    (h11.SEND_BODY, 1, False),
    (h11.SEND_BODY, 1, False),
    (h11.DONE, 1, True),  # the deadline does not limit the answer
    (h11.DONE, 1, True),
    (h11.IDLE, 2, False),
    (h11.SEND_BODY, 2, False),
  ):
    protocol.conn.their_state = state
    protocol._watch()
    assert (len(timers), timers[-1].is_over) == (number, is_over)
  protocol._watch(is_complete=True)  # the connection is gone
  assert [timer.is_over for timer in timers] == [True, True]
  assert {(t.seconds, t.function) for t in timers} == {(9.0, "abort")}


def test_a_model_is_ready_when_a_version_can_answer(model):
  app = App({"toy": model}, Metrics(), SETTINGS)
  model.states = {2: ("END", "an error")}
  assert _request(app, "/readyz")[0] == 200
  other = Model("other", "unread", 1, Version)
  app = App({"toy": model, "other": other}, Metrics(), SETTINGS)
  assert _request(app, "/readyz")[0] == 503
