"""A client for models that TensorFlow Serving or serve.py serves."""

import base64
import contextlib
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request

import numpy as np

from serving.answers import SIGNATURE, Answers, TextModel
from serving.engines import Batches, first_line
from storage import UserError, setting


class RemoteError(OSError):
  """A server does not answer, or answers with an error."""


class RemoteEngine(Batches):
  """A model at a URL of TF Serving; the URL may end in /versions/N.

  The URL may name a user and a password, as in https://user:password@host/....
  Raises RemoteError after `timeout` seconds, or if SIGNATURE is missing.
  """

  def __init__(self, url: str, timeout: float = 30.0):
    self._timeout, self._login = timeout, ""
    parts = urllib.parse.urlsplit(url.removesuffix(":predict").rstrip("/"))
    login, _, host = parts.netloc.rpartition("@")
    path = urllib.parse.quote(parts.path, "/%")  # a name may have any letters
    self.url = parts._replace(netloc=host, path=path).geturl()
    if login:
      user, _, password = map(urllib.parse.unquote, login.partition(":"))
      self._login = base64.b64encode(f"{user}:{password}".encode()).decode()
    try:
      signatures = self._fetch("/metadata")["metadata"]["signature_def"]
      signature = signatures["signature_def"][SIGNATURE]
      inputs, outputs = (
        {
          name: [int(size["size"]) for size in info["tensor_shape"]["dim"]]
          for name, info in signature[key].items()
        }
        for key in ("inputs", "outputs")
      )
    except (KeyError, TypeError):
      text = f"{self.url} is not an export of this project in a TF Serving"
      raise RemoteError(text) from None
    super().__init__({k: len(v) - 1 for k, v in inputs.items()}, outputs)

  def _call(self, inputs):
    columns = {name: value.tolist() for name, value in inputs.items()}
    body = {"signature_name": SIGNATURE, "inputs": columns}
    document = self._fetch(":predict", json.dumps(body).encode())
    try:
      outputs = document["outputs"]
      if len(self.outputs) == 1:  # a single output has no name
        outputs = dict.fromkeys(self.outputs, outputs)
      return {name: np.array(outputs[name], "f4") for name in self.outputs}
    except (KeyError, TypeError, ValueError):
      message = f"{self.url} answered something else than {SIGNATURE}"
      raise RemoteError(message) from None

  def _fetch(self, path, body=None):
    request = urllib.request.Request(self.url + path, body)
    if self._login:  # not for another host, if the server redirects
      login = f"Basic {self._login}"
      request.add_unredirected_header("Authorization", login)
    try:
      with urllib.request.urlopen(request, timeout=self._timeout) as response:
        return json.load(response)
    except urllib.error.HTTPError as error:
      text = ""  # it may break off
      with contextlib.suppress(OSError, http.client.HTTPException):
        text = error.read().decode("utf-8", "replace")
      with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        text = str(json.loads(text)["error"])  # some servers send an object
      is_html = text.lstrip().startswith("<")  # from a proxy
      message = error.reason if is_html else first_line(text) or error.reason
      if error.code == 400 and body:
        raise UserError(f"{self.url}: {message}") from None
      raise RemoteError(f"{self.url}: {error.code}, {message}") from None
    except TimeoutError:
      limit = f"{self._timeout:g} s: raise {setting('timeout')}"
      message = f"did not answer within {limit}"
    except (OSError, http.client.HTTPException) as error:
      reason = getattr(error, "reason", error)
      message = f"cannot be reached: {reason}; is the server running?"
    except (ValueError, RecursionError):
      message = "did not answer with JSON: is it the URL of a model?"
    raise RemoteError(f"{self.url} {message}")


def text_model(url: str, answers: Answers, timeout: float) -> TextModel:
  """Joins a RemoteEngine to Answers; UserError if they do not fit together."""
  engine = RemoteEngine(url, timeout)
  labels = len(answers.config.labels or ())
  width = engine.outputs.get("logits", [-1])[-1]
  is_same_task = {*answers.outputs} <= {*engine.outputs}
  if not is_same_task or (labels and width not in (-1, labels)):
    names = ", ".join(answers.outputs)
    raise UserError(
      f"{engine.url} has the outputs {engine.outputs}, but {setting('files')} "
      f"is an export with the outputs {names} and {labels} labels"
    )
  return TextModel(answers, engine)
