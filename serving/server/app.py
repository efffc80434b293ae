"""The server as an ASGI application: URLs, request limits and metrics."""

import asyncio
import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import prometheus_client
from absl import logging
from prometheus_client import Counter, Gauge, Histogram

from serving.answers import SCRIPT, STYLE
from serving.server import RestError, Settings, rest
from serving.server.models import NOT_LOADED, Model
from storage import setting

_URL = re.compile(
  r"/v1/models/([^/:]+)(?:/versions/([0-9]{1,18}))?(?:(:predict)|(/metadata))?",
  re.IGNORECASE,
)
_HERE = Path(__file__).parent
_PAGE_TYPES = {".html": "html", ".css": "css", ".js": "javascript"}
_PAGE_HEADERS = {
  "content-security-policy": "default-src 'none'; script-src 'self'; "
  "style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
  "form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
}
_METRICS_TYPE = {"content-type": prometheus_client.CONTENT_TYPE_LATEST}
_PREFLIGHT = "access-control-allow-methods"


class Response(NamedTuple):
  """An HTTP response; `headers` lacks content-length, which the app adds."""

  status: int
  body: bytes
  headers: dict[str, str]


class Metrics:
  """Metrics by model; the label "" counts requests for unknown models.

  `seconds` is the time from the head of a request to the answer.
  """

  def __init__(self):
    self._registry = prometheus_client.CollectorRegistry()
    base = {"namespace": "serving", "registry": self._registry}
    model = {"labelnames": ["model"], **base}
    self.requests = Counter("requests", "Answers.", ["model", "status"], **base)
    self.seconds = Histogram("seconds", "Latency.", **model)
    name, text = "batch_texts", "Texts of a call."
    buckets = [1 << power for power in range(10)]  # 1 to 512
    self.batch_texts = Histogram(name, text, buckets=buckets, **model)
    self._queue = Gauge("queue_texts", "Texts that wait.", **model)
    self._version = Gauge("version", "Newest, or 0.", **model)

  def text(self, models: Mapping[str, Model]) -> bytes:
    for name, model in models.items():
      versions = model.versions
      queued = sum(version.workers.queued for version in versions.values())
      self._queue.labels(name).set(queued)
      self._version.labels(name).set(max(versions, default=0))
    return prometheus_client.generate_latest(self._registry)


class App:
  """Endpoints. The server sets `connections`, and `is_draining` at shutdown."""

  def __init__(self, models: Mapping, metrics: Metrics, settings: Settings):
    self.is_draining = False
    self.connections: Collection = ()
    self._models, self._metrics, self._settings = models, metrics, settings
    pages = _HERE / "page.css", _HERE / "page.js", STYLE, SCRIPT
    self._get = {
      "/healthz": lambda: _of_text("ok\n"),
      "/readyz": self._readyz,
      "/metrics": lambda: Response(200, metrics.text(models), _METRICS_TYPE),
      "/models": self._list,
      "/": _page(_HERE / "page.html"),
      **{f"/{file.name}": _page(file) for file in pages},
    }

  async def __call__(self, scope, receive, send) -> None:
    begin = time.monotonic()
    cors = _cors_headers(scope, self._settings.cors_origins)
    if _PREFLIGHT in cors:
      response = Response(200, b"", {})
    elif scope["path"] in self._get and scope["method"] in ("GET", "HEAD"):
      response = self._get[scope["path"]]()
    else:
      response = await self._v1({**scope, "model": ""}, receive)
    status, body, headers = response
    headers = headers | cors | {"content-length": str(len(body))}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    head = {"type": "http.response.start", "status": status, "headers": pairs}
    await send(head)
    await send({"type": "http.response.body", "body": body})
    if self._settings.access_log:
      # A line of the Common Log Format, with milliseconds at the end.
      size = 0 if scope["method"] == "HEAD" else len(body)
      client = re.sub(r"[^!#-~]", "?", (scope["client"] or ["-"])[0])
      path = scope["raw_path"][:200].decode("latin-1").replace('"', "%22")
      now = time.strftime("%d/%b/%Y:%H:%M:%S %z")
      request = f'"{scope["method"]} {path} HTTP/{scope["http_version"]}"'
      milliseconds = f"{1e3 * (time.monotonic() - begin):.1f}"
      line = f"{client} - - [{now}] {request} {status} {size} {milliseconds}"
      with suppress(OSError):  # a full disk must not end the connection
        print(line, flush=True)

  def _list(self):
    versions = {name: m.versions for name, m in self._models.items()}
    facts = {name: v[max(v)].facts for name, v in versions.items() if v}
    return _of_json({"models": [*versions], "facts": facts})

  def _readyz(self):
    if self.is_draining:
      return _of_text("shutting down\n", 503)
    missing = [name for name, m in self._models.items() if not m.versions]
    text = f"not loaded: {', '.join(missing)}\n" if missing else "ok\n"
    return _of_text(text, 503 if missing else 200)

  async def _v1(self, request, receive):
    begin = time.monotonic()
    limit = self._settings.max_connections
    is_full = len(self.connections) > limit
    try:
      if is_full:
        flag = setting("max_connections", limit)
        message = f"there are too many clients ({flag})"
        logging.log_every_n_seconds(logging.WARNING, message, 60)
        raise RestError(message, 503)
      response = await self._answer(request, receive)
    except RestError as error:
      response = _of_json({"error": str(error)}, error.status)
    except Exception:
      logging.exception("%s %r", request["method"], request["path"][:200])
      response = _of_json({"error": "internal error"}, 500)
    # After 408 the rest of the body is still unread.
    if self.is_draining or is_full or response.status == 408:
      response.headers["connection"] = "close"
    model = request["model"]  # "" for unknown models
    self._metrics.requests.labels(model, f"{response.status}").inc()
    self._metrics.seconds.labels(model).observe(time.monotonic() - begin)
    return response

  async def _answer(self, request, receive):
    method, path = request["method"], request["raw_path"].decode("latin-1")
    if not path.lower().startswith("/v1/"):
      raise RestError("Not Found", 404)
    match = _URL.fullmatch(path)
    methods = ("POST",) if match and match[3] else ("GET", "HEAD")
    if not match or method not in methods:
      raise RestError(f"Malformed request: {method} {path[:200]}")
    name, version, predict, metadata = match.groups()
    name = unquote(name)
    model = self._models.get(name)
    request["model"] = name if model else ""
    number = int(version) if version else None
    if not predict:
      return self._status(model, name, number, metadata)
    body = await self._read(receive)
    encoding = dict(request["headers"]).get(b"content-encoding", b"").lower()
    if encoding not in (b"", b"identity") or body.startswith(b"\x1f\x8b"):
      message = "the body is compressed: send JSON without Content-Encoding"
      raise RestError(message, 415)
    if not model:
      raise RestError(f"there is no model {name}", 404)
    document = rest.parse(body)
    loaded = model.find(number)[1]
    signature = str(document.get("signature_name") or "serving_default")
    if not (specs := loaded.specs.get(signature)):
      raise RestError(f'the model has no signature "{signature[:200]}"')
    examples = rest.read_inputs(document, specs)
    outputs = await self._run(loaded, signature, examples, receive)
    content = rest.write_outputs(outputs, "instances" in document)
    return Response(200, content, {"content-type": "application/json"})

  def _status(self, model, name, number, metadata):
    if metadata and model:
      number, loaded = model.find(number)
      spec = {"name": name, "signature_name": "", "version": f"{number}"}
      signatures = {"signature_def": {"signature_def": loaded.signature_def}}
      return _of_json({"model_spec": spec, "metadata": signatures})
    states = model.states if model else {}
    if not states:
      raise RestError(f"Could not find any versions of model {name}", 404)
    if number not in (None, *states):
      raise RestError(f"Could not find version {number} of model {name}", 404)
    numbers = sorted(states, reverse=True) if number is None else [number]
    rows = []
    for each in numbers:
      state, error = states[each]  # not shown: an error may name files
      code, message = ("INTERNAL", NOT_LOADED) if error else ("OK", "")
      status = {"error_code": code, "error_message": message}
      rows.append({"version": f"{each}", "state": state, "status": status})
    return _of_json({"model_version_status": rows})

  async def _read(self, receive) -> bytes:
    limit = self._settings.max_request_bytes
    body, size, is_more = bytearray(), 0, True
    try:
      async with asyncio.timeout(self._settings.read_timeout):
        # Reads all, because a client that is still sending sees no answer.
        while is_more:
          message = await receive()
          if message["type"] == "http.disconnect":
            raise RestError("client closed request", 499)
          size += len(message["body"])
          if size <= limit:
            body += message["body"]
          is_more = message["more_body"]
    except TimeoutError:
      message = f"the request did not come in time ({setting('read_timeout')})"
      raise RestError(message, 408) from None
    if size > limit:
      flag = setting("max_request_bytes")
      raise RestError(f"the request has more than {limit} bytes ({flag})", 413)
    return bytes(body)

  async def _run(self, version, signature, examples, receive):
    size, limit = len(examples), self._settings.max_queue_size
    if size > limit:
      message = f"the request has {size} texts: send at most {limit} at a time"
      raise RestError(f"{message} ({setting('max_queue_size')})")
    is_gone = asyncio.create_task(receive())  # returns if the client leaves
    try:
      future = version.workers.submit(version.functions[signature], examples)
      is_gone.add_done_callback(lambda _: future.cancel())
      async with asyncio.timeout(self._settings.request_timeout):
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
      if not is_gone.done():
        raise
      raise RestError("client closed request", 499) from None
    except TimeoutError:  # cancels the request
      flag = setting("request_timeout")
      message = f"the answer did not come in time ({flag})"
      raise RestError(message, 504) from None
    finally:
      is_gone.cancel()


# --- Responses -------------------------------------------------------------


def _of_json(value, status: int = 200) -> Response:
  # A message may quote a client's text, which may have a lone surrogate.
  content = json.dumps(value, ensure_ascii=False).encode(errors="replace")
  more = {"retry-after": "1"} if status == 503 else {}
  return Response(status, content, {"content-type": "application/json"} | more)


def _of_text(text: str, status: int = 200) -> Response:
  kind = {"content-type": "text/plain; charset=utf-8"}
  return Response(status, text.encode(), kind)


def _page(file):
  """Reads a file of the page once; returns a function for its response."""
  kind = {"content-type": f"text/{_PAGE_TYPES[file.suffix]}; charset=utf-8"}
  response = Response(200, file.read_bytes(), kind | _PAGE_HEADERS)
  return lambda: response


def _cors_headers(scope: dict, origins: Sequence[str]) -> dict[str, str]:
  """CORS headers that let pages of `origins` read an answer; "*" allows all.

  Adds _PREFLIGHT if a browser asks what a page of `origins` may send.
  """
  if not origins:
    return {}
  sent = {name: value.decode("latin-1") for name, value in scope["headers"]}
  origin = "*" if "*" in origins else sent.get(b"origin", "")
  headers = {} if origin == "*" else {"vary": "Origin"}
  if origin not in origins:
    return headers
  headers["access-control-allow-origin"] = origin
  headers["access-control-expose-headers"] = "Retry-After"
  if scope["method"] == "OPTIONS" and b"access-control-request-method" in sent:
    needed = sent.get(b"access-control-request-headers", "Content-Type")
    headers["access-control-allow-headers"] = needed
    headers |= {_PREFLIGHT: "GET, POST", "access-control-max-age": "600"}
  return headers
