r"""Answers HTTP requests with trained models, by TF Serving's REST API.

--model names an --export_dir, a folder of numbered versions of an export, or an
--output_dir. The server loads new versions while running. In a browser, the
server's address shows a page to try the models.

  python serve.py --model=/models/mrpc
  curl -d '{"instances": [{"text_a": "He said so.", "text_b": "So he."}]}' \
    http://localhost:8501/v1/models/mrpc:predict
"""

import cli.start_up  # noqa: F401, first: handles Ctrl-C during imports

import os
import re
import signal
import socket
from dataclasses import dataclass
from functools import partial

from absl import logging

from cli import program
from cli.settings import Settings, common, flag, required
from serving import formats
from serving.server import Settings as Limits
from serving.server import models
from storage import UserError
from tasks.open import open_model

_DEFAULT = Limits()
_number = partial(flag, minimum=1)
_seconds = partial(flag, minimum=0.0, maximum=1e6)


@dataclass(frozen=True, kw_only=True)
class ServerSettings(Settings):
  """Flags of serve.py."""

  model: tuple[str, ...] = required(
    "[NAME=]FOLDER of an export, its versions or a training; may be repeated.",
    repeated=True,
  )
  host: str = common("127.0.0.1", "Address; 0.0.0.0 for all.")
  port: int = common(8501, "Port; 0 for any.", minimum=0, maximum=65535)
  engine: str = flag(
    "auto",
    "Files of an export to use; auto: litert on a CPU, if exported.",
    choices=formats.ENGINES,
  )
  access_log: bool = flag(
    _DEFAULT.access_log, "Print a line for each request, without its texts."
  )
  cors_origins: tuple[str, ...] = flag(
    (), "Origins whose pages may ask, such as https://example.org; *: all."
  )
  num_versions: int = _number(1, "Newest versions to keep loaded.")
  poll_seconds: float = _seconds(
    1.0, "Time between searches for new versions; 0: search once."
  )
  max_queue_size: int = _number(
    _DEFAULT.max_queue_size,
    "Maximum waiting texts; beyond it 503, and 400 for a larger request.",
  )
  max_request_bytes: int = _number(
    _DEFAULT.max_request_bytes, "Maximum size of a request."
  )
  read_timeout: float = _seconds(
    _DEFAULT.read_timeout, "Seconds within which a request must arrive."
  )
  request_timeout: float = _seconds(
    _DEFAULT.request_timeout,
    "Seconds after which the answer to a request is 504.",
  )
  max_connections: int = _number(
    _DEFAULT.max_connections, "Maximum connections; beyond it, answers are 503."
  )


def check_flags(args: ServerSettings) -> None:
  if not args.host:  # "" means all addresses to a socket
    raise UserError("--host is empty: is a variable of the shell unset?")
  for origin in args.cors_origins:
    if not re.fullmatch(r"\*|null|[a-z][a-z0-9.+-]*://[^/*A-Z\s]+", origin):
      raise UserError(
        f"--cors_origins: {origin!r} is not an origin: write scheme://host or "
        "scheme://host:port in small letters, without a path, or *"
      )
  names = set()
  for model in args.model:
    name, folder = models.split_name(model)
    if name in names:
      raise UserError(
        f"two models are called {name}: rename one, as in "
        f"--model=other={folder}"
      )
    names.add(name)


def main(args: ServerSettings) -> None:
  # Import the rest late: a wrong address should fail fast.
  family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
  try:
    address = socket.create_server(
      (args.host, args.port), family=family, backlog=1024
    )
  except OSError as error:
    raise UserError(
      f"cannot listen at --host={args.host} --port={args.port}: "
      f"{error.strerror}; name another port, 0 for any, or another host"
    ) from None
  from serving.server import app, connections
  from serving.server.version import Version

  limits = Limits(*(args[name] for name in Limits._fields))
  counts = app.Metrics()
  served = {}
  for name, folder in map(models.split_name, args.model):
    sizes = counts.batch_texts.labels(name)

    def load(path, sizes=sizes):
      model = open_model(path, args.engine)
      return Version(model, args.max_queue_size, sizes)

    served[name] = models.Model(name, folder, args.num_versions, load)
  host, port = address.getsockname()[:2]
  logging.info("http://%s:%d", f"[{host}]" if ":" in host else host, port)
  server = connections.Server(app.App(served, counts, limits), limits)
  # uvicorn answers open requests, then raises the signal again.
  for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP
      signal.signal(number, server.handle_exit)
  with models.polled(served.values(), args.poll_seconds) as loading:
    server.run(sockets=[address])
  logging.info("all requests are answered")
  loading.join(1.0)
  if loading.is_alive():
    os._exit(0)  # nothing else interrupts TensorFlow


if __name__ == "__main__":
  program.run(ServerSettings, check_flags, main)
