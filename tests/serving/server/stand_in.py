"""Servers with functions of Python in place of models."""

import contextlib
import http.client
import json
import socket
import threading

from serving.server.app import App, Server
from serving.server.models import Metrics, Model, Settings, polled
from serving.server.rest import Spec
from serving.server.version import Workers

TEXT = Spec("string", [None])
SETTINGS = Settings(poll_seconds=0.02, max_request_bytes=10_000)


def _echo(examples):
  texts = [example["text"] for example in examples]
  return [{"text": text, "length": len(text)} for text in texts]


def _half_plus_two(examples):
  return [{"y": example["x"] / 2 + 2} for example in examples]


def _pair(examples):
  return [{"sum": row["a"] + sum(row["b"])} for row in examples]


def _images(examples):
  return [{"size": len(example["image"])} for example in examples]


class Version:
  """As serving.server.version.Version, with one worker.

  `gate` lets the signature "gated" answer; `started` is set when it begins.
  """

  def __init__(self, folder="", settings=SETTINGS, on_call=lambda size: None):
    self.folder = folder
    self.gate, self.started = threading.Event(), threading.Event()
    self.specs = {
      "serving_default": {"text": TEXT},
      "half": {"x": Spec("int32", [None])},
      "pair": {"a": Spec("int32", [None]), "b": Spec("int32", [None, 2])},
      "bytes": {"image": TEXT},
      "gated": {"text": TEXT},
      "broken": {"text": TEXT},
    }
    self.functions = {
      "serving_default": _echo,
      "half": _half_plus_two,
      "pair": _pair,
      "bytes": _images,
      "gated": self._wait,
      "broken": lambda examples: 1 / 0,
    }
    self.signature_def = {"serving_default": {"inputs": {}}}
    self.workers = Workers(settings.max_queue_size, 1, on_call=on_call)

  def _wait(self, examples):
    self.started.set()
    assert self.gate.wait(20)
    return _echo(examples)


class Client:
  """A running server: `version` that answers, `server`, `port`."""

  def __init__(self, server, port, version):
    self.server, self.port, self.version = server, port, version

  def keep_alive(self):
    """A connection for several requests, as HTTPConnection has them."""
    return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

  def request(self, method, path, body=None, headers=None):
    """Status, headers and body of an answer."""
    with contextlib.closing(self.keep_alive()) as connection:
      connection.request(method, path, body, headers or {})
      response = connection.getresponse()
      return response.status, response.headers, response.read()

  def ask(self, document, path="/v1/models/toy:predict"):
    """Status and JSON of the answer to a document, or to bytes."""
    if not isinstance(document, bytes):
      document = json.dumps(document).encode()
    status, headers, body = self.request("POST", path, document)
    assert headers["content-type"] == "application/json"
    return status, json.loads(body)

  def get(self, path):
    """Status and JSON of what is at a path."""
    status, _, body = self.request("GET", path)
    return status, json.loads(body)

  def connect(self):
    """A connection, for what no library sends."""
    return socket.create_connection(("127.0.0.1", self.port), timeout=20)


@contextlib.contextmanager
def running(models, settings=SETTINGS, version=None):
  """A client of a server in a thread, which ends in order."""
  app = App({model.name: model for model in models}, Metrics(), settings)
  address = socket.create_server(("127.0.0.1", 0))
  port = address.getsockname()[1]
  server = Server(app, settings)
  thread = threading.Thread(target=server.run, args=([address],))
  thread.start()
  try:
    with polled(models, settings.poll_seconds):
      yield Client(server, port, version)
  finally:
    if version:
      version.gate.set()
    server.should_exit = True
    thread.join()


@contextlib.contextmanager
def toy(folder, settings=SETTINGS):
  """A client of the model `toy`, version 7, which answers."""
  (folder / "7").mkdir()
  version = Version("", settings)
  model = Model("toy", str(folder), 1, lambda folder: version)
  model.poll()
  with running([model], settings, version) as client:
    yield client
