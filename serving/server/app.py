"""The server: URLs as an ASGI application, metrics, connections by uvicorn."""

import asyncio
import contextlib
import json
import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

import h11
import prometheus_client
import uvicorn
from absl import logging
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from serving.server import rest, workers
from serving.server.models import Model, Settings
from serving.server.rest import RestError

_MODEL = r"(?i)/v1/models/([^/:]+)(?:/versions/([0-9]+)|/labels/([^/:]+))?"
_PREDICT = re.compile(rf"{_MODEL}:(classify|regress|predict)")
_STATUS = re.compile(rf"{_MODEL}(/metadata)?")
_METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
# Bodies of more bytes, and outputs of more values, are converted in a thread.
_LARGE = 1 << 15
# A body that is too long is read up to this multiple of the limit, since a
# client that cannot send all of it may not see the answer.
_READ_ANYWAY = 64
_PAGE = {"/": "page.html"} | {
  f"/{name}": name
  for name in ("page.css", "page.js", "answers.css", "answers.js")
}
_PAGE_HEADERS = {
  "content-security-policy": "default-src 'none'; script-src 'self'; "
  "style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
  "form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
}
# Bounds of histograms.
_SECONDS = (
  *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
  *(1, 2.5, 5, 10, 30, 60),
)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
# After its own limit the application answers; then the connection is closed.
_GRACE_SECONDS = 2.0
# A client may use an idle connection for so long after SIGTERM.
_DRAIN_SECONDS = 1.0
_KEEP_ALIVE_SECONDS = 60


class Metrics:
  """Metrics by model; requests for no model of the server count for "".

  `requests` counts by HTTP `status`; `seconds` are from the head of a request
  to its answer, `batch_texts` the texts that a worker answers together.
  """

  def __init__(self):
    self._registry = prometheus_client.CollectorRegistry()
    names = {"namespace": "serving", "registry": self._registry}
    by_model = {"labelnames": ["model"], **names}
    self.requests = prometheus_client.Counter(
      "requests", "Answers.", ["model", "status"], **names
    )
    self.seconds = prometheus_client.Histogram(
      "seconds", "Latency.", buckets=_SECONDS, **by_model
    )
    self.batch_texts = prometheus_client.Histogram(
      "batch_texts", "Texts of a call.", buckets=_TEXTS, **by_model
    )
    self._queue = prometheus_client.Gauge(
      "queue_texts", "Texts that wait.", **by_model
    )
    self._version = prometheus_client.Gauge(
      "version", "Newest, or 0.", **by_model
    )

  def text(self, models: Mapping[str, Model]) -> bytes:
    """All metrics in Prometheus' text format."""
    for name, model in models.items():
      versions = model.versions
      queued = sum(version.workers.queued for version in versions.values())
      self._queue.labels(name).set(queued)
      self._version.labels(name).set(max(versions, default=0))
    return prometheus_client.generate_latest(self._registry)


class App:
  """Endpoints of the server; `is_draining` is set when it is about to end."""

  def __init__(
    self, models: Mapping[str, Model], metrics: Metrics, settings: Settings
  ):
    self.is_draining = False
    self._models, self._metrics, self._settings = models, metrics, settings

  def asgi(self) -> Starlette:
    return Starlette(
      routes=[
        Route("/healthz", self._healthz),
        Route("/readyz", self._readyz),
        Route("/metrics", self._show_metrics),
        Route("/models", self._list_models),
        *(Route(path, self._page) for path in _PAGE),
        Route("/{path:path}", self._v1, methods=_METHODS),
      ],
      exception_handlers={HTTPException: _http_error},
    )

  async def _healthz(self, request):
    return PlainTextResponse("ok\n")

  async def _readyz(self, request):
    if self.is_draining:
      return PlainTextResponse("shutting down\n", 503)
    missing = [name for name, m in self._models.items() if not m.versions]
    text = f"not loaded: {', '.join(missing)}\n" if missing else "ok\n"
    return PlainTextResponse(text, 503 if missing else 200)

  async def _show_metrics(self, request):
    return Response(
      self._metrics.text(self._models),
      headers={"content-type": prometheus_client.CONTENT_TYPE_LATEST},
    )

  async def _list_models(self, request):
    return _json({"models": list(self._models)})

  async def _page(self, request):
    name = _PAGE.get(request.scope["path"])
    if not name:  # a line break follows
      raise HTTPException(404)
    return FileResponse(Path(__file__).with_name(name), headers=_PAGE_HEADERS)

  async def _v1(self, request: Request) -> Response:
    begin = time.monotonic()
    request.state.model = ""  # names of unknown models have no metrics
    try:
      response = await self._answer(request)
    except RestError as error:
      response = _json({"error": str(error)}, error.status)
    except ClientDisconnect:
      response = _json({"error": "client closed request"}, 499)
    except Exception:
      logging.exception("%s %r", request.method, request.scope["path"][:200])
      response = _json({"error": "internal error"}, 500)
    # After 408 and 413, the rest of the request is not read.
    if self.is_draining or response.status_code in (408, 413):
      response.headers["connection"] = "close"
    model, status = request.state.model, str(response.status_code)
    self._metrics.requests.labels(model, status).inc()
    self._metrics.seconds.labels(model).observe(time.monotonic() - begin)
    return response

  async def _answer(self, request):
    path = request.scope["raw_path"].decode("ascii", "replace")
    if request.method == "POST" and (match := _PREDICT.fullmatch(path)):
      return await self._predict(request, *match.groups())
    if request.method == "GET" and (match := _STATUS.fullmatch(path)):
      return self._status(request, *match.groups())
    if not path.lower().startswith("/v1/"):
      raise RestError(404, "Not Found")
    raise RestError(400, f"Malformed request: {request.method} {path[:200]}")

  def _find(self, request, name) -> Model | None:
    model = self._models.get(unquote(name))
    request.state.model = model.name if model else ""
    return model

  def _status(self, request, name, version, label, metadata):
    model = self._find(request, name)
    number = rest.version_number(version, label)
    states = model.states if model else {}
    if metadata and model:
      number, loaded = model.find(number)
      spec = {"name": model.name, "signature_name": "", "version": f"{number}"}
      signatures = {"signature_def": loaded.signature_def}
      metadata = {"signature_def": signatures}
      return _json({"model_spec": spec, "metadata": metadata})
    if not states:
      name = unquote(name)
      raise RestError(404, f"Could not find any versions of model {name}")
    if number not in (None, *states):
      name = model.name
      raise RestError(404, f"Could not find version {number} of model {name}")
    numbers = sorted(states, reverse=True) if number is None else [number]
    statuses = [rest.version_status(each, *states[each]) for each in numbers]
    return _json({"model_version_status": statuses})

  async def _predict(self, request, name, version, label, method):
    model = self._find(request, name)
    number = rest.version_number(version, label)
    body = await self._read(request)
    document = await _convert(len(body), rest.parse, body)
    if not model:
      which = "Latest({})" if number is None else f"Specific({{}}, {number})"
      which = which.format(unquote(name))
      raise RestError(404, f"Servable not found for request: {which}")
    outputs = None
    while outputs is None:
      loaded = model.find(number)[1]
      signature = rest.signature_name(document, loaded.specs, method.lower())
      specs = loaded.specs[signature]
      examples = await _convert(len(body), rest.read_inputs, document, specs)
      try:
        outputs = await self._run(loaded, signature, examples)
      except workers.Closed:
        continue  # the version was unloaded just now
    by_rows = "instances" in document
    size = rest.num_values(outputs)
    content = await _convert(size, rest.write_outputs, outputs, by_rows)
    return Response(content, media_type="application/json")

  async def _read(self, request) -> bytes:
    limit = self._settings.max_request_bytes
    body, size = bytearray(), 0
    try:
      async with asyncio.timeout(self._settings.read_timeout):
        async for chunk in request.stream():
          size += len(chunk)
          if size <= limit:
            body += chunk
          elif size > limit * _READ_ANYWAY:
            break
    except TimeoutError:
      raise RestError(408, "the request did not come in time") from None
    if size > limit:
      raise RestError(413, f"the request has more than {limit} bytes")
    return bytes(body)

  async def _run(self, version, signature, examples):
    size, limit = len(examples), self._settings.max_queue_size
    if size > limit:
      message = "Task size %d is larger than maximum input batch size %d"
      raise RestError(400, message % (size, limit))
    try:
      future = version.workers.submit(version.functions[signature], examples)
      async with asyncio.timeout(self._settings.request_timeout):
        return await asyncio.wrap_future(future)
    except workers.QueueFull:
      message = "The batch scheduling queue to which this task was submitted is"
      raise RestError(503, f"{message} full") from None
    except TimeoutError:  # the request is cancelled unless it runs already
      raise RestError(504, "Timed out waiting for an answer") from None


async def _convert(size, function, *arguments):
  """Calls a function, in a thread if that may take long."""
  if size < _LARGE:
    return function(*arguments)
  return await asyncio.to_thread(function, *arguments)


def _json(value, status=200):
  # Half a surrogate pair of a client may be in a message.
  content = json.dumps(value, ensure_ascii=False).encode(errors="replace")
  headers = {"retry-after": "1"} if status == 503 else None
  return Response(content, status, headers, media_type="application/json")


async def _http_error(request, error):
  return _json({"error": error.detail}, error.status_code)


# --- Connections -----------------------------------------------------------


class _Protocol(H11Protocol):
  """HTTP/1.1 that closes connections of slow senders and slow readers."""

  seconds: float
  _deadline: asyncio.TimerHandle | None = None

  def connection_made(self, transport):
    super().connection_made(transport)
    with contextlib.suppress(AttributeError, OSError):  # not on Linux
      transport.get_extra_info("socket").setsockopt(
        socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * self.seconds)
      )
    self._watch()

  def data_received(self, data):
    super().data_received(data)
    self._watch()

  def connection_lost(self, exc):
    self._watch(is_complete=True)
    super().connection_lost(exc)

  def _watch(self, is_complete=False):
    if is_complete or self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
      if self._deadline:
        self._deadline.cancel()
      self._deadline = None
    elif not self._deadline:
      abort = self.transport.abort
      self._deadline = self.loop.call_later(self.seconds, abort)


class Server(uvicorn.Server):
  """Server that after SIGTERM or Ctrl-C answers what it has accepted."""

  def __init__(self, app: App, settings: Settings):
    seconds = settings.read_timeout + _GRACE_SECONDS
    config = uvicorn.Config(
      app.asgi(),
      http=type("Protocol", (_Protocol,), {"seconds": seconds}),
      ws="none",
      loop="asyncio",
      lifespan="off",
      log_config=None,
      log_level="error",
      access_log=False,
      server_header=False,
      limit_concurrency=settings.max_connections + 1,  # from here on, 503
      timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    super().__init__(config)
    self._app = app

  async def shutdown(self, sockets=None):
    """Accepts no more connections, answers those there are, then ends."""
    self._app.is_draining = True  # answers say that they are the last
    await asyncio.sleep(0)  # accepts connections that are waiting
    for server in self.servers:
      server.close()
    steps = 50
    for _ in range(steps):
      if self.server_state.connections:
        await asyncio.sleep(_DRAIN_SECONDS / steps)
    await super().shutdown(sockets)
