"""Runs nginx with the configuration in docs/production.md."""

import base64
import contextlib
import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

NAME = "bert.example.org"
ROOT = Path(__file__).parents[3]
# Global settings, which the documented file leaves out.
_MAIN = """
daemon off;
{user}
worker_processes 1;
pid {folder}/pid;
error_log {folder}/errors;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  include {folder}/bert.conf;
}}
"""


def find():
  """Returns the path of nginx, also outside of PATH, or None."""
  path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
  return shutil.which("nginx", path=path)


def skip_if_absent():
  if not (find() and shutil.which("openssl")):
    pytest.skip("needs apt-get install nginx openssl")


def block(name, document="production.md"):
  """Returns the file between two marks of a documentation page."""
  text = (ROOT / "docs" / document).read_text()
  [match] = re.findall(
    rf"<!-- {name}: begin -->\n(.*?)<!-- {name}: end -->", text, re.S
  )
  return textwrap.dedent(match)


def free_port():
  with socket.create_server(("127.0.0.1", 0)) as listening:
    return listening.getsockname()[1]


class Proxy:
  """A running nginx: TLS at `port`, user ann:secret."""

  def __init__(self, folder):
    self.port = free_port()
    self._context = ssl.create_default_context(cafile=folder / "bert.crt")

  def request(self, method, path, body=None, user="ann:secret", **headers):
    """Returns the status, headers and body of a response, and checks TLS."""
    if user:
      word = base64.b64encode(user.encode()).decode()
      headers["Authorization"] = f"Basic {word}"
    connection = http.client.HTTPSConnection(NAME, self.port, timeout=20)
    plain = socket.create_connection(("127.0.0.1", self.port), 20)
    connection.sock = self._context.wrap_socket(plain, server_hostname=NAME)
    with contextlib.closing(connection):
      connection.request(method, path, body, headers)
      response = connection.getresponse()
      return response.status, response.headers, response.read()


@contextlib.contextmanager
def running(folder, ports):
  """Runs nginx in a new folder, in front of servers at two ports.

  The servers also answer behind the prefix /bert. Without nginx, the test is
  skipped.
  """
  skip_if_absent()
  subprocess.run(
    f"""
    set -e
    echo "ann:$(openssl passwd -apr1 secret)" > bert.passwords
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={NAME} \
      -addext subjectAltName=DNS:{NAME} -keyout bert.key -out bert.crt
    """,
    shell=True,
    check=True,
    cwd=folder,
    capture_output=True,
  )
  proxy = Proxy(folder)
  server, bracket = block("nginx").rsplit("}", 1)
  text = f"{server}{block('prefix')}}}{bracket}"
  for old, new in (
    ("127.0.0.1:8501 ", f"127.0.0.1:{ports[0]} "),
    ("127.0.0.1:8502 ", f"127.0.0.1:{ports[1]} "),
    ("listen 443 ", f"listen 127.0.0.1:{proxy.port} "),
    ("listen 80;", f"listen 127.0.0.1:{free_port()};"),
    ("/etc/ssl/bert.", f"{folder}/bert."),
    ("/etc/nginx/bert.passwords", f"{folder}/bert.passwords"),
  ):
    assert old in text
    text = text.replace(old, new)
  (folder / "bert.conf").write_text(text)
  user = "" if os.getuid() else "user root;"  # root alone may read the folder
  (folder / "nginx.conf").write_text(_MAIN.format(folder=folder, user=user))
  command = [find(), "-c", folder / "nginx.conf", "-e", folder / "errors"]
  process = subprocess.Popen(command, cwd=folder)
  try:
    _wait(process, proxy.port, folder)
    yield proxy
  finally:
    process.terminate()
    process.wait(20)


def _wait(process, port, folder):
  end = time.monotonic() + 20
  while time.monotonic() < end and process.poll() is None:
    with contextlib.suppress(ConnectionRefusedError):
      socket.create_connection(("127.0.0.1", port)).close()
      return
    time.sleep(0.02)
  raise AssertionError((folder / "errors").read_text())
