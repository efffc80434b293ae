"""HTTP responses of the server, CORS headers and the access log."""

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_PAGE_TYPES = {".html": "html", ".css": "css", ".js": "javascript"}
_PAGE_HEADERS = {
  "content-security-policy": "default-src 'none'; script-src 'self'; "
  "style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
  "form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
}
PREFLIGHT = "access-control-allow-methods"


class Response(NamedTuple):
  """An HTTP response; `headers` lacks content-length, which the app adds."""

  status: int
  body: bytes
  headers: dict[str, str]


def of_json(value, status: int = 200) -> Response:
  # A message may quote a client's text, which may have a lone surrogate.
  content = json.dumps(value, ensure_ascii=False).encode(errors="replace")
  more = {"retry-after": "1"} if status == 503 else {}
  return Response(status, content, {"content-type": "application/json"} | more)


def of_text(text: str, status: int = 200) -> Response:
  kind = {"content-type": "text/plain; charset=utf-8"}
  return Response(status, text.encode(), kind)


def of_page(file: Path) -> Response:
  kind = {"content-type": f"text/{_PAGE_TYPES[file.suffix]}; charset=utf-8"}
  return Response(200, file.read_bytes(), kind | _PAGE_HEADERS)


def cors_headers(scope: dict, origins: Sequence[str]) -> dict[str, str]:
  """CORS headers that let pages of `origins` read an answer; "*" allows all.

  The key PREFLIGHT is present if a browser asks what such a page may send.
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
    headers |= {PREFLIGHT: "GET, POST", "access-control-max-age": "600"}
  return headers


def log_access(scope: dict, status: int, size: int, seconds: float) -> None:
  """Prints a line of the Common Log Format, with milliseconds at the end.

  The server goes on if stdout fails.
  """
  client = re.sub(r"[^!#-~]", "?", (scope["client"] or ["-"])[0])
  path = scope["raw_path"][:200].decode("latin-1").replace('"', "%22")
  now = time.strftime("%d/%b/%Y:%H:%M:%S %z")
  request = f"{scope['method']} {path} HTTP/{scope['http_version']}"
  line = (
    f'{client} - - [{now}] "{request}" {status} {size} {1000 * seconds:.1f}'
  )
  with contextlib.suppress(OSError, AttributeError):  # sys.stdout may be None
    os.write(sys.stdout.fileno(), f"{line}\n".encode())
