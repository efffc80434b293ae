"""CORS, the access log, compressed bodies, and errors that only the log has."""

import contextlib
import gzip
import json
import re
import threading
import time
from unittest import mock

import pytest

from serving.server.models import Model
from serving.server.version import Version
from storage import UserError
from tests.serving.server import stand_in
from tests.serving.server.test_version import ROW, _Model, _rows

PREDICT = "/v1/models/toy:predict"
BODY = b'{"instances": ["a secret"]}'
PAGE = "https://a.example:8443"


def _served(folder, **settings):
  return stand_in.toy(folder, stand_in.SETTINGS._replace(**settings))


@pytest.fixture(name="client", scope="module")
def _client(tmp_path_factory):
  with _served(tmp_path_factory.mktemp("toy")) as client:
    yield client


REQUESTS = [
  ("POST", PREDICT, BODY, 200),
  ("GET", "/models", None, 200),
  ("GET", "/none", None, 404),
]
# Allowed origins, the origin of a page, and what the page's browser reads.
ORIGINS = [
  (["http://localhost:3000", PAGE], PAGE, PAGE),
  ([PAGE], f"{PAGE}0", None),
  ([PAGE], "null", None),
  (["*"], PAGE, "*"),
  ([], PAGE, None),
]
PREFLIGHT = {
  "Access-Control-Request-Method": "POST",
  "Access-Control-Request-Headers": "authorization,content-type",
}


@pytest.mark.parametrize(("allowed", "origin", "expected"), ORIGINS)
def test_only_pages_of_allowed_origins_read_answers_and_errors(
  tmp_path, allowed, origin, expected
):
  page, prefix = {"Origin": origin}, "access-control-"
  with _served(tmp_path, cors_origins=allowed) as client:
    for method, path, body, status in REQUESTS:
      result, headers, _ = client.request(method, path, body, page)
      assert (result, headers[f"{prefix}allow-origin"]) == (status, expected)
      assert bool(expected) == (f"{prefix}expose-headers" in headers)
      # Tells caches that an answer depends on the origin.
      assert (headers["vary"] == "Origin") == (allowed not in (["*"], []))
    asked = client.request("OPTIONS", PREDICT, None, page | PREFLIGHT)
    plain = client.request("OPTIONS", PREDICT, None, page)
    for path in ("/", "/models", "/metrics"):
      assert client.request("OPTIONS", path, None, page)[0] == 404
  assert (asked[0], plain[0]) == (200 if expected else 400, 400)
  answer = {"allow-methods": "GET, POST", "max-age": "600"}
  answer |= {"allow-headers": "authorization,content-type"}
  for name, value in answer.items():
    assert asked[1][prefix + name] == (value if expected else None)


# --- Access log ------------------------------------------------------------

LINE = re.compile(
  r'(\S+) - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] '
  r'"(.*)" (\d+) (\d+) (\d+\.\d)\n'
)  # fmt: skip


@pytest.fixture(name="logged")
def _logged_client(tmp_path):
  with _served(tmp_path, access_log=True) as client:
    yield client


def _lines(capfd, number):
  """Waits for access log lines and matches each with LINE."""
  output, end = "", time.monotonic() + 10
  while output.count("\n") < number and time.monotonic() < end:
    time.sleep(0.05)  # readouterr loses what is written while it reads
    output += capfd.readouterr().out
  return [LINE.fullmatch(line) for line in output.splitlines(True)]


def _logged(capfd, number=1):
  """Returns requests, statuses and bytes from the access log."""
  lines = _lines(capfd, number)
  assert {line[1] for line in lines} == {"127.0.0.1"}
  return [(line[2], int(line[3]), int(line[4])) for line in lines]


def test_each_request_is_a_log_line_without_texts(logged, capfd):
  size = len(logged.request("POST", PREDICT, BODY)[2])
  logged.request("HEAD", "/?text=secret&password=secret")
  error = len(logged.request("PUT", "/v1/models/t%6Fy")[2])
  assert _logged(capfd, 3) == [
    (f"POST {PREDICT} HTTP/1.1", 200, size),
    ("HEAD / HTTP/1.1", 200, 0),
    ("PUT /v1/models/t%6Fy HTTP/1.1", 400, error),
  ]


def test_a_full_disk_of_the_log_ends_no_connection(logged, monkeypatch):
  full = mock.Mock(write=mock.Mock(side_effect=OSError("no space")))
  monkeypatch.setattr("sys.stdout", full)
  with contextlib.closing(logged.keep_alive()) as connection:
    for _ in range(3):
      connection.request("GET", "/healthz")
      assert connection.getresponse().read() == b"ok\n"
      time.sleep(0.1)  # the log comes after the answer
  assert full.write.called


def test_no_request_can_forge_a_log_line(logged, capfd):
  for path in ('/"_200_1_1.0', "/%0a127.0.0.1", "/" + "a" * 5000):
    logged.request("GET", path)
  first, second, third = (request for request, _, _ in _logged(capfd, 3))
  assert first == "GET /%22_200_1_1.0 HTTP/1.1"
  assert second == "GET /%0a127.0.0.1 HTTP/1.1"
  assert len(third) < 300


def test_the_log_names_the_client_behind_a_proxy_on_this_machine(logged, capfd):
  # nginx adds the last address.
  for forwarded in ("6.6.6.6, 192.0.2.7", 'a" 200 \xe9'):
    logged.request("GET", "/models", None, {"X-Forwarded-For": forwarded})
  assert [line[1] for line in _lines(capfd, 2)] == ["192.0.2.7", "a??200??"]


def test_requests_are_not_logged_by_default(client, capfd):
  client.request("POST", PREDICT, BODY)
  assert capfd.readouterr().out == ""


def test_the_log_has_milliseconds_and_the_metrics_have_seconds(logged, capfd):
  threading.Timer(0.3, logged.version.gate.set).start()
  logged.ask(stand_in.GATED)
  [line] = _lines(capfd, 1)
  assert 200 < float(line[5]) < 10_000
  metrics = logged.request("GET", "/metrics")[2].decode()
  [seconds] = re.findall('serving_seconds_sum{model="toy"} (.*)', metrics)
  assert 0.2 < float(seconds) < 10


# --- Compressed bodies -----------------------------------------------------

ZIPPED = gzip.compress(BODY, mtime=0)


@pytest.mark.parametrize(
  ("encoding", "body"), [(None, ZIPPED), ("GZIP", BODY), ("br", b"")]
)
def test_a_compressed_body_gets_415_with_the_remedy(client, encoding, body):
  headers = {"Content-Encoding": encoding} if encoding else {}
  status, headers, answer = client.request("POST", PREDICT, body, headers)
  message = "the body is compressed: send JSON without Content-Encoding"
  assert (status, json.loads(answer)) == (415, {"error": message})


def test_json_of_any_content_type_is_read(client):
  headers = {"Content-Encoding": "Identity"}
  headers["Content-Type"] = "application/x-www-form-urlencoded"  # of curl -d
  assert client.request("POST", PREDICT, BODY, headers)[0] == 200


# --- Paths -----------------------------------------------------------------


def _fail(path):
  raise UserError(f"{path}/model_float32.tflite is damaged: see {path}/x.py")


def test_only_the_log_has_the_folder_of_a_version_that_fails(tmp_path, caplog):
  (tmp_path / "toy" / "7").mkdir(parents=True)
  model = Model("toy", f"{tmp_path}/toy", 1, _fail)
  model.poll()
  assert f"{tmp_path}/toy/7/model_float32.tflite is damaged" in caplog.text
  with stand_in.running([model]) as client:
    answers = [client.request("POST", PREDICT, BODY)]
    for path in ("v1/models/toy", "v1/models/toy/metadata", "readyz"):
      answers.append(client.request("GET", f"/{path}"))
  assert not any(b"tflite" in body for _, _, body in answers)
  assert answers[0][0] == 503
  assert b"could not be loaded: the server's log says why" in answers[0][2]


def test_only_the_log_has_the_error_of_an_engine(tmp_path, caplog):
  caplog.set_level("INFO", "absl")
  model = _Model()
  model.engine.run = lambda rows: _fail("/models/toy/7")
  version = Version(model, 9)
  with stand_in.toy(tmp_path, version=version) as client:
    status, answer = client.ask(_rows({"input_ids": ROW["input_ids"]}))
  assert status == 400 and "/" not in answer["error"]
  assert "/models/toy/7/model_float32.tflite" in caplog.text
