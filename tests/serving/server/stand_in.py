"""Servers with Python functions in place of models."""

import contextlib
import http.client
import json
import socket
import threading
import time

from serving.server import Settings
from serving.server.app import App, Metrics
from serving.server.connections import Server
from serving.server.models import Model, polled
from serving.server.version import Spec, Workers

TEXT = Spec("string", 1)
SETTINGS = Settings(max_request_bytes=10_000)
GATED = {"signature_name": "gated", "instances": ["a"]}


def wait_until(is_true):
  """Waits at most half a minute for a condition."""
  end = time.monotonic() + 30
  while not is_true():
    assert time.monotonic() < end
    time.sleep(0.01)


def _echo(text):
  return {"text": text, "length": len(text)}


class Version:
  """Stands in for serving.server.version.Version, with one worker.

  The signature "gated" sets `started`, then waits for `gate`.
  """

  def __init__(self, folder="", settings=SETTINGS):
    self.folder = folder
    self.gate, self.started = threading.Event(), threading.Event()
    signatures = {
      "serving_default": ({"text": TEXT}, _echo),
      "gated": ({"text": TEXT}, self._wait),
      "broken": ({"text": TEXT}, lambda text: 1 / 0),
    }
    self.specs = {name: specs for name, (specs, _) in signatures.items()}
    self.functions = {
      name: lambda rows, answer=answer: [answer(**row) for row in rows]
      for name, (_, answer) in signatures.items()
    }
    self.signature_def = {"serving_default": {"inputs": {}}}
    self.facts = {"task": "none"}
    self.workers = Workers(settings.max_queue_size, 1)

  def _wait(self, text):
    self.started.set()
    assert self.gate.wait(20)
    return _echo(text)


class Client:
  def __init__(self, port, server=None, version=None):
    self.port, self.server, self.version = port, server, version

  def keep_alive(self):
    """Returns an HTTPConnection for several requests."""
    return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

  def request(self, method, path, body=None, headers=None):
    """Returns the status, headers and body of a response."""
    with contextlib.closing(self.keep_alive()) as connection:
      connection.request(method, path, body, headers or {})
      response = connection.getresponse()
      return response.status, response.headers, response.read()

  def ask(self, document, path="/v1/models/toy:predict"):
    if not isinstance(document, bytes):
      document = json.dumps(document).encode()
    status, headers, body = self.request("POST", path, document)
    assert headers["content-type"] == "application/json"
    return status, json.loads(body)

  def get(self, path):
    status, _, body = self.request("GET", path)
    return status, json.loads(body)

  def connect(self):
    """Opens a raw socket for malformed requests."""
    return socket.create_connection(("127.0.0.1", self.port), timeout=20)


@contextlib.contextmanager
def running(models, settings=SETTINGS, version=None):
  """Runs a server in a thread and yields a client."""
  app = App({model.name: model for model in models}, Metrics(), settings)
  address = socket.create_server(("127.0.0.1", 0))
  port = address.getsockname()[1]
  server = Server(app, settings)
  thread = threading.Thread(target=server.run, args=([address],))
  thread.start()
  try:
    with polled(models, 0.02):
      yield Client(port, server, version)
  finally:
    if isinstance(version, Version):
      version.gate.set()
    server.should_exit = True
    thread.join()


@contextlib.contextmanager
def toy(folder, settings=SETTINGS, version=None):
  """Yields a client of the model `toy`, version 7."""
  (folder / "7").mkdir()
  version = version or Version("", settings)
  model = Model("toy", str(folder), 1, lambda folder: version)
  model.poll()
  with running([model], settings, version) as client:
    yield client
