r"""Answers HTTP requests with trained models, by TF Serving's REST API.

--model names what --do_export wrote, a folder of numbered versions of it, or
the --output_dir of a training; new versions are loaded while the server runs.
The server's address shows a page to try the models.

  python serve.py --model=/models/mrpc
  curl -d '{"instances": [{"text_a": "He said so.", "text_b": "So he."}]}' \
    http://localhost:8501/v1/models/mrpc:predict
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

import os
import re
import signal
import socket

from absl import flags, logging

import tasks
from cli import program
from cli.arguments import Arguments
from serving import engines
from serving.server import models
from serving.server.models import Metrics, Model, Settings
from storage import UserError

flags.DEFINE_multi_string(
  "model",
  None,
  "[NAME=]FOLDER of an export, of its versions or a training; may be repeated.",
  required=True,
)
flags.DEFINE_enum(
  "engine",
  "auto",
  engines.NAMES,
  "Files of an export to use; auto: litert on a CPU, else savedmodel.",
)
flags.DEFINE_string("host", "127.0.0.1", "Address; 0.0.0.0 for all.")
flags.DEFINE_integer("port", 8501, "Port; 0 for any.", 0, 65535)
flags.DEFINE_bool(
  "access_log", False, "Print a line for each request, without its texts."
)
flags.DEFINE_list(
  "cors_origins",
  [],
  "Origins whose pages may ask, as https://example.org; *: all.",
)
HELP = {
  "num_versions": "Newest versions to keep loaded.",
  "poll_seconds": "Time between searches for new versions; 0: search once.",
  "max_queue_size": "Maximum waiting texts; beyond it, answers are 503.",
  "max_request_bytes": "Maximum size of a request.",
  "read_timeout": "Seconds within which a request must arrive.",
  "request_timeout": "Seconds after which the answer to a request is 504.",
  "max_connections": "Maximum connections; beyond it, answers are 503.",
}
for name, text in HELP.items():
  default = Settings._field_defaults[name]
  if isinstance(default, int):
    flags.DEFINE_integer(name, default, text, 1)
  else:
    flags.DEFINE_float(name, default, text, 0.0, 1e6)


def check_flags(args: Arguments) -> None:
  if not args.host:  # a socket would take it for all addresses
    raise UserError("--host is empty: is a variable of the shell unset?")
  for origin in args.cors_origins:
    if not re.fullmatch(r"\*|null|[a-z][a-z0-9.+-]*://[^/*A-Z\s]+", origin):
      raise UserError(
        f"--cors_origins: {origin!r} is no origin: write scheme://host or "
        "scheme://host:port in small letters, without a path, or *"
      )
  names: dict[str, str] = {}
  for flag in args.model:
    name, _ = models.split_name(flag)
    if name in names:
      raise UserError(
        f"--model={names[name]} and --model={flag} are both called {name}: "
        "name one of them, as in --model=other=FOLDER"
      )
    names[name] = flag


def listen(host: str, port: int) -> socket.socket:
  """A socket that listens; ValueError if the address cannot be used."""
  family = socket.AF_INET6 if ":" in host else socket.AF_INET
  try:
    return socket.create_server((host, port), family=family, backlog=1024)
  except OSError as error:
    raise UserError(
      f"cannot listen at --host={host} --port={port}: {error.strerror}; name "
      "another port, 0 for any, or another host"
    ) from None


def main(args: Arguments) -> None:
  # The rest is imported after the address was found to be free.
  address = listen(args.host, args.port)
  from serving.server.app import App, Server
  from serving.server.version import Version

  settings = args.select(Settings)
  metrics = Metrics()
  served = {}
  for name, folder in map(models.split_name, args.model):
    on_call = metrics.batch_texts.labels(name).observe

    def load(path, on_call=on_call):
      return Version(tasks.open_model(path, args.engine), settings, on_call)

    served[name] = Model(name, folder, settings.num_versions, load)
  host, port = address.getsockname()[:2]
  logging.info("http://%s:%d", f"[{host}]" if ":" in host else host, port)
  server = Server(App(served, metrics, settings), settings)
  # uvicorn ends in order, then sends itself the signal again.
  for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
      signal.signal(number, server.handle_exit)
  with models.polled(served.values(), settings.poll_seconds) as loading:
    server.run(sockets=[address])
  logging.info("all requests are answered")
  loading.join(1.0)
  if loading.is_alive():
    os._exit(0)  # TensorFlow cannot be interrupted


if __name__ == "__main__":
  program.run(main, check_flags)
