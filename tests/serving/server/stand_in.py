"""Servers with functions of Python in place of SavedModels."""

import contextlib
import http.client
import json
import socket
import threading

import numpy as np
import tensorflow as tf

from serving.server.app import App, Metrics, Server
from serving.server.batching import Batcher, Function
from serving.server.models import Model, Settings, polled

TEXT = tf.TensorSpec([None], tf.string)
SETTINGS = Settings(poll_seconds=0.02, max_request_bytes=10_000)


def _echo(inputs):
  lengths = [len(text) for text in inputs["text"]]
  return {"text": inputs["text"], "length": np.array(lengths, np.int32)}


def _half_plus_two(inputs):
  return {"y": inputs["x"] / 2 + 2}


def _pair(inputs):
  return {"sum": inputs["a"] + inputs["b"].sum(axis=1)}


class Version:
  """As serving.server.saved_model.Version.

  `gate` lets the signature "gated" answer; `started` is set when it begins.
  """

  def __init__(self, folder="", settings=SETTINGS, on_batch=lambda size: None):
    self.folder = folder
    self.gate, self.started = threading.Event(), threading.Event()
    self.specs = {
      "serving_default": {"text": TEXT},
      "half": {"x": tf.TensorSpec([None], tf.float32)},
      "pair": {
        "a": tf.TensorSpec([None], tf.int32),
        "b": tf.TensorSpec([None, 2], tf.int32),
      },
      "bytes": {"image": TEXT},
      "gated": {"text": TEXT},
      "broken": {"text": TEXT},
    }
    self.functions = {
      "serving_default": Function(_echo, can_join=True),
      "half": Function(_half_plus_two),
      "pair": Function(_pair),
      "bytes": Function(lambda inputs: {"out_bytes": inputs["image"]}),
      "gated": Function(self._wait),
      "broken": Function(lambda inputs: 1 / 0),
    }
    self.signature_def = {"serving_default": {"inputs": {}}}
    self.batcher = Batcher(
      settings.max_batch_size,
      settings.batch_timeout_ms / 1000,
      settings.max_queue_size,
      on_batch,
    )

  def _wait(self, inputs):
    self.started.set()
    assert self.gate.wait(20)
    return _echo(inputs)


class Client:
  """A running server: `version` that answers, `server`, `port`."""

  def __init__(self, server, port, version):
    self.server, self.port, self.version = server, port, version

  def request(self, method, path, body=None, headers=None, timeout=20):
    """Status, headers and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout)
    with contextlib.closing(connection):
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
