"""The files in docs/production.md work as documented."""

import configparser
import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from serving.server import Settings
from tests import programs
from tests.serving.server import nginx, stand_in
from tests.serving.server.nginx import block

PREDICT = "/v1/models/toy:predict"
BODY = b'{"instances": ["ab"]}'
PREFIXES = ["", "/bert"]
DEFAULTS = Settings()


def _flags(words):
  """Returns the values of serve.py's flags by name."""
  rows = programs.table(programs.FLAGS)
  known = {row[0] for row in rows if "serve" in row[4].split()}
  flags = dict(re.findall(r"--(\w+)=?(\S*)", " ".join(words)))
  assert {*flags} <= known
  return flags


# --- nginx -----------------------------------------------------------------


@pytest.fixture(name="served", scope="module")
def _served(tmp_path_factory):
  """Yields a server and nginx, whose second upstream port is closed."""
  folders = [tmp_path_factory.mktemp(name) for name in ("toy", "nginx")]
  with (
    stand_in.toy(folders[0]) as server,
    nginx.running(folders[1], [server.port, nginx.free_port()]) as proxy,
  ):
    yield server, proxy


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
  text = block("nginx")
  seconds = dict(re.findall(r"\b(\w+) (\d+)s;", text))
  assert int(seconds["proxy_read_timeout"]) > DEFAULTS.request_timeout
  assert int(seconds["keepalive_timeout"]) < 60  # app._KEEP_ALIVE_SECONDS
  [size] = re.findall(r"client_max_body_size (\d+)m;", text)
  assert int(size) << 20 > DEFAULTS.max_request_bytes


# --- systemd ---------------------------------------------------------------


def test_the_systemd_unit_starts_the_server_and_waits_for_its_answers():
  parser = configparser.ConfigParser(interpolation=None)
  parser.optionxform = str
  parser.read_string(block("unit"))
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
  text = block("unit")
  text = text.replace("/opt/bert/.venv/bin/python", sys.executable)
  (tmp_path / "bert@.service").write_text(text.replace("/opt/bert", "/tmp"))
  command = ["systemd-analyze", "verify", tmp_path / "bert@8501.service"]
  done = subprocess.run(command, capture_output=True, text=True)
  assert (done.returncode, done.stderr) == (0, "")


# --- Containers ------------------------------------------------------------


def test_the_deployment_has_valid_flags_and_its_probes_succeed(tmp_path):
  yaml = pytest.importorskip("yaml")
  deployment, service = yaml.safe_load_all(block("deployment"))
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
  [tag] = re.findall(r"--tag=(\S+)", block("build", "several_machines.md"))
  job = block("kubernetes", "several_machines.md")
  for text in (job, block("deployment")):
    assert re.findall(r"image: (\S+)", text) == [tag]
