"""An object store on this host that stands in for Google Cloud Storage.

TensorFlow sends requests for gs:// to Google's address only. But it uses the
proxy that https_proxy names, and trusts the certificates of CURL_CA_BUNDLE. The
proxy here has a certificate for Google's address, and passes all requests to an
emulator.
"""

import contextlib
import re
import socket
import socketserver
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

BUCKET = "gs://bucket"
_MISSING = b"HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n"


@contextlib.contextmanager
def running(folder):
  """Runs an empty bucket; yields the environment variables of its clients."""
  pytest.importorskip(
    "gcp_storage_emulator",
    reason="needs `pip install -r requirements-beam.txt`",
  )
  # The store needs a separate process, because TensorFlow may hold Python's
  # global lock while it waits for the store.
  command = [sys.executable, "-m", "tests.object_store", str(folder)]
  with subprocess.Popen(
    command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True
  ) as process:
    address = f"http://localhost:{int(process.stdout.readline())}"
    yield {
      "https_proxy": address,
      "http_proxy": address,
      "no_proxy": "localhost,127.0.0.1,::1",  # for gRPC
      "CURL_CA_BUNDLE": str(folder / "certificate.pem"),
      "GOOGLE_AUTH_TOKEN_FOR_TESTING": "token",
      "NO_GCE_CHECK": "true",
    }
    process.kill()


def main(folder):
  """Serves until the process is killed; prints the proxy's port."""
  from gcp_storage_emulator import server as emulator  # noqa: PLC0415

  # Without `or b""` the emulator fails on an empty object, which has no body.
  read = emulator._read_data
  emulator._read_data = lambda *arguments: read(*arguments) or b""
  with emulator.create_server("localhost", 0, True, "bucket") as server:
    _Proxy.context = _tls_context(folder)
    _Proxy.store = server._api._httpd.server_address
    with socketserver.ThreadingTCPServer(("localhost", 0), _Proxy) as proxy:
      print(proxy.server_address[1], flush=True)
      proxy.serve_forever()


def _tls_context(folder):
  hosts = "DNS:www.googleapis.com,DNS:storage.googleapis.com"
  command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=store"
  files = ["-keyout", folder / "key.pem", "-out", folder / "certificate.pem"]
  subprocess.run(
    [*command.split(), "-addext", f"subjectAltName={hosts}", *files],
    check=True,
    capture_output=True,
  )
  context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
  context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
  return context


class _Proxy(socketserver.BaseRequestHandler):
  """Passes one request to the emulator, whichever host the request names."""

  def handle(self):
    with contextlib.suppress(ConnectionError, ssl.SSLError):
      client = self.request
      line, headers, stream = _read_head(client)
      if line.startswith(b"CONNECT"):
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        client = self.context.wrap_socket(client, server_side=True)
        line, headers, stream = _read_head(client)
      if b"expect" in headers:
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
      body = _read_body(headers, stream)
      headers[b"content-length"] = b"%d" % len(body)
      lines = [re.sub(rb" http://[^/]*", b" ", line)]
      lines += [name + b": " + value for name, value in headers.items()]
      with socket.create_connection(self.store) as store:
        store.sendall(b"\r\n".join([*lines, b"", body]))
        # The emulator answers nothing if the bucket is missing.
        block = store.recv(1 << 16) or _MISSING
        while block:
          client.sendall(block)
          block = store.recv(1 << 16)
      stream.close()  # an open stream keeps the connection open
      client.close()


def _read_head(connection):
  """Returns the request line, the headers by name, and a stream of the body."""
  stream = connection.makefile("rb")
  line = stream.readline().strip()
  headers = {}
  while header := stream.readline().strip():
    name, _, value = header.partition(b":")
    headers[name.lower()] = value.strip()
  if not line:
    raise ConnectionError
  return line, headers, stream


def _read_body(headers, stream):
  if headers.pop(b"transfer-encoding", b"") != b"chunked":
    return stream.read(int(headers.get(b"content-length", 0)))
  body = b""
  while size := int(stream.readline(), 16):
    body += stream.read(size)
    stream.readline()
  stream.readline()
  return body


if __name__ == "__main__":
  main(Path(sys.argv[1]))
