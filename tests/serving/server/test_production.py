"""The files in docs/production.md work as documented."""

import base64
import configparser
import contextlib
import http.client
import itertools
import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
from functools import partial

import pytest

from serving.server import Settings
from tests import programs, shared
from tests.serving.server import stand_in

PREDICT = "/v1/models/toy:predict"
BODY = b'{"instances": ["ab"]}'
PREFIXES = ["", "/bert"]
DEFAULTS = Settings()
_block = partial(shared.block, "production.md")
HOST = "bert.example.org"


def _flags(words):
  """Returns the values of serve.py's flags by name."""
  rows = programs.table(programs.FLAGS)
  known = {row[0] for row in rows if "serve" in row[4].split()}
  flags = dict(re.findall(r"--(\w+)=?(\S*)", " ".join(words)))
  assert {*flags} <= known
  return flags


# --- nginx -----------------------------------------------------------------

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


class _Proxy:
  """A running nginx: TLS at `port`, user ann:secret."""

  def __init__(self, folder):
    self.port = shared.free_port()
    self._context = ssl.create_default_context(cafile=folder / "bert.crt")

  def request(self, method, path, body=None, user="ann:secret", **headers):
    """Returns the status, headers and body of a response, and checks TLS."""
    if user:
      word = base64.b64encode(user.encode()).decode()
      headers["Authorization"] = f"Basic {word}"
    connection = http.client.HTTPSConnection(HOST, self.port, timeout=20)
    plain = socket.create_connection(("127.0.0.1", self.port), 20)
    connection.sock = self._context.wrap_socket(plain, server_hostname=HOST)
    with contextlib.closing(connection):
      connection.request(method, path, body, headers)
      response = connection.getresponse()
      return response.status, response.headers, response.read()


@pytest.fixture(name="served", scope="module")
def _served(tmp_path_factory):
  """Yields a server and nginx, with the prefix /bert and a closed upstream."""
  path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
  path = shutil.which("nginx", path=path)
  if not (path and shutil.which("openssl")):
    pytest.skip("needs apt-get install nginx openssl")
  folder = tmp_path_factory.mktemp("nginx")
  subprocess.run(
    f"""
    set -e
    echo "ann:$(openssl passwd -apr1 secret)" > bert.passwords
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={HOST} \
      -addext subjectAltName=DNS:{HOST} -keyout bert.key -out bert.crt
    """,
    shell=True,
    check=True,
    cwd=folder,
    capture_output=True,
  )
  proxy = _Proxy(folder)

  def is_open():
    assert process.poll() is None, (folder / "errors").read_text()
    with contextlib.suppress(ConnectionRefusedError):
      socket.create_connection(("127.0.0.1", proxy.port)).close()
      return True

  with stand_in.toy(tmp_path_factory.mktemp("toy")) as server:
    main, bracket = _block("nginx").rsplit("}", 1)
    text = f"{main}{_block('prefix')}}}{bracket}"
    for old, new in (
      ("127.0.0.1:8501 ", f"127.0.0.1:{server.port} "),
      ("127.0.0.1:8502 ", f"127.0.0.1:{shared.free_port()} "),
      ("listen 443 ", f"listen 127.0.0.1:{proxy.port} "),
      ("listen 80;", f"listen 127.0.0.1:{shared.free_port()};"),
      ("/etc/ssl/bert.", f"{folder}/bert."),
      ("/etc/nginx/bert.passwords", f"{folder}/bert.passwords"),
    ):
      assert old in text
      text = text.replace(old, new)
    (folder / "bert.conf").write_text(text)
    user = "" if os.getuid() else "user root;"  # root alone may read the folder
    (folder / "nginx.conf").write_text(_MAIN.format(folder=folder, user=user))
    command = [path, "-c", folder / "nginx.conf", "-e", folder / "errors"]
    process = subprocess.Popen(command, cwd=folder)
    try:
      stand_in.wait_until(is_open)
      yield server, proxy
    finally:
      process.terminate()
      process.wait(20)


@pytest.fixture(name="proxy")
def _proxy(served):
  return served[1]


@pytest.mark.parametrize("user", [None, "ann:wrong"])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_client_without_the_password_is_refused(proxy, user, prefix):
  for method, path in (("POST", PREDICT), ("GET", "/"), ("GET", "/models")):
    path = prefix + path
    status, headers, body = proxy.request(method, path, BODY, user)
    assert (status, headers["www-authenticate"]) == (401, 'Basic realm="BERT"')
    assert b"toy" not in body


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_client_with_the_password_gets_answers_and_the_page(proxy, prefix):
  status, _, body = proxy.request("POST", prefix + PREDICT, BODY)
  answer = {"predictions": [{"length": 2, "text": "ab"}]}
  assert (status, json.loads(body)) == (200, answer)
  status, headers, body = proxy.request("GET", f"{prefix}/")
  assert status == 200 and b'src="page.js"' in body
  assert headers["content-security-policy"].startswith("default-src 'none'")


def test_load_balancers_need_no_password_and_nginx_hides_metrics(served):
  server, proxy = served
  for path in ("/healthz", "/readyz"):
    assert proxy.request("GET", path, user=None)[::2] == (200, b"ok\n")
  for user, prefix in itertools.product((None, "ann:secret"), PREFIXES):
    for path in ("/metrics", "//metrics", "/%6detrics", "/x/../metrics"):
      assert proxy.request("GET", prefix + path, user=user)[0] == 404
  assert server.request("GET", "/metrics")[0] == 200


def test_the_limits_of_nginx_fit_the_limits_of_the_server():
  text = _block("nginx")
  seconds = dict(re.findall(r"\b(\w+) (\d+)s;", text))
  assert int(seconds["proxy_read_timeout"]) > DEFAULTS.request_timeout
  assert int(seconds["keepalive_timeout"]) < 60  # app._KEEP_ALIVE_SECONDS
  [size] = re.findall(r"client_max_body_size (\d+)m;", text)
  assert int(size) << 20 > DEFAULTS.max_request_bytes


# --- systemd ---------------------------------------------------------------


def test_the_systemd_unit_starts_the_server_and_waits_for_its_answers():
  parser = configparser.ConfigParser(interpolation=None)
  parser.optionxform = str
  parser.read_string(_block("unit"))
  service = parser["Service"]
  python, program, *words = shlex.split(service["ExecStart"])
  assert python.endswith("/.venv/bin/python")
  assert (programs.ROOT / program).is_file()
  assert _flags(words)["port"] == "%i"
  assert int(service["TimeoutStopSec"]) > DEFAULTS.request_timeout + 5


@pytest.mark.skipif(
  not shutil.which("systemd-analyze"), reason="needs systemd-analyze"
)
def test_systemd_understands_the_unit(tmp_path):
  text = _block("unit")
  text = text.replace("/opt/bert/.venv/bin/python", sys.executable)
  (tmp_path / "bert@.service").write_text(text.replace("/opt/bert", "/tmp"))
  command = ["systemd-analyze", "verify", tmp_path / "bert@8501.service"]
  done = subprocess.run(command, capture_output=True, text=True)
  assert (done.returncode, done.stderr) == (0, "")


# --- Containers ------------------------------------------------------------


def test_the_deployment_has_valid_flags_and_its_probes_succeed(tmp_path):
  yaml = pytest.importorskip("yaml")
  deployment, service = yaml.safe_load_all(_block("deployment"))
  pod = deployment["spec"]["template"]
  labels = pod["metadata"]["labels"]
  assert deployment["spec"]["selector"]["matchLabels"] == labels
  assert service["spec"]["selector"] == labels
  [container] = pod["spec"]["containers"]
  python, program, *words = container["command"]
  assert python == "python" and (programs.ROOT / program).is_file()
  flags = _flags(words)
  assert flags["host"] == "0.0.0.0"
  port = container["ports"][0]["containerPort"]
  assert port == service["spec"]["ports"][0]["targetPort"] == 8501
  with stand_in.toy(tmp_path) as server:
    for probe in ("readinessProbe", "livenessProbe"):
      asked = container[probe]["httpGet"]
      assert asked["port"] == port
      assert server.request("GET", asked["path"])[0] == 200
  [mount], [volume] = container["volumeMounts"], pod["spec"]["volumes"]
  assert mount["name"] == volume["name"]
  assert flags["model"].startswith(mount["mountPath"])
  *_, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
  grace = pod["spec"]["terminationGracePeriodSeconds"]
  assert grace > DEFAULTS.request_timeout + int(seconds) + 5


def test_kubernetes_uses_the_image_that_docker_builds():
  [tag] = re.findall(
    r"--tag=(\S+)", shared.block("several_machines.md", "build")
  )
  job = shared.block("several_machines.md", "kubernetes")
  for text in (job, _block("deployment")):
    assert re.findall(r"image: (\S+)", text) == [tag]
