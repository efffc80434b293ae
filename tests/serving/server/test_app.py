"""Answers of each URL, with all fields of TF Serving's documentation."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from absl import logging

from tests.serving.server import stand_in

PREDICT = "/v1/models/toy:predict"


@pytest.fixture(name="client", scope="module")
def _client(tmp_path_factory):
  with stand_in.toy(tmp_path_factory.mktemp("toy")) as client:
    yield client


def _status(version, state, code, message):
  status = {"error_code": code, "error_message": message}
  return {"version": version, "state": state, "status": status}


STATUS = {"model_version_status": [_status("7", "AVAILABLE", "OK", "")]}
DEFAULT = {"serving_default": {"inputs": {}}}
METADATA = {
  "model_spec": {"name": "toy", "signature_name": "", "version": "7"},
  "metadata": {"signature_def": {"signature_def": DEFAULT}},
}
# Columns: path, status, message.
GET_ERRORS = """
/v1/models/toy/versions/8 | 404 | Could not find version 8 of model toy
/v1/models/none | 404 | Could not find any versions of model none
/v1/models/none/metadata | 404 | Could not find any versions of model none
/v1/models/toy/labels/stable | 400 | Malformed request: GET /v1/models/toy/labels/stable
/v1/models/toy/versions/8/metadata | 404 | model toy has no version 8
/v1/models/toy:predict | 400 | Malformed request: GET /v1/models/toy:predict
/none | 404 | Not Found
"""  # noqa: E501


def test_each_url_answers_get_and_head(client):
  for path in ("toy", "t%6fy", "toy/versions/7"):
    assert client.get(f"/V1/Models/{path}") == (200, STATUS)
    assert client.request("HEAD", f"/v1/models/{path}")[0] == 200
  for path in ("toy/metadata", "toy/versions/7/metadata"):
    assert client.get(f"/v1/models/{path}") == (200, METADATA)
  listed = {"models": ["toy"], "facts": {"toy": {"task": "none"}}}
  assert client.get("/models") == (200, listed)
  for case in GET_ERRORS.strip().splitlines():
    path, status, message = case.split(" | ")
    assert client.get(path) == (int(status), {"error": message})


# Columns: path, document, status, answer or message.
ANSWERS = """
toy:predict | {"instances": ["ab", "c"]} | 200 | {"predictions": [{"length": 2, "text": "ab"}, {"length": 1, "text": "c"}]}
toy/versions/7:PREDICT | {"inputs": ["ab", "c"]} | 200 | {"outputs": {"length": [2, 1], "text": ["ab", "c"]}}
toy:predict | {"signature_name": "", "inputs": ["ab"]} | 200 | {"outputs": {"length": [2], "text": ["ab"]}}
none:predict | {"instances": ["a"]} | 404 | there is no model none
toy/versions/8:predict | {"instances": ["a"]} | 404 | model toy has no version 8
toy:predict | {"signature_name": 5, "instances": ["a"]} | 400 | the model has no signature "5"
toy:classify | {"examples": [{"x": 1.0}]} | 400 | Malformed request: POST /v1/models/toy:classify
toy:predict | {"signature_name": "broken", "instances": ["a"]} | 500 | internal error
"""  # noqa: E501


@pytest.mark.parametrize("case", ANSWERS.strip().splitlines())
def test_each_predict_url_and_body_has_the_expected_answer(client, case):
  path, document, status, text = case.split(" | ")
  answer = json.loads(text) if status == "200" else {"error": text}
  result = client.ask(document.encode(), f"/v1/models/{path}")
  assert result == (int(status), answer)


def test_bodies_of_wrong_sizes_are_refused(client):
  message = "the request has 513 texts: send at most 512 at a time"
  message += " (max_queue_size)"
  assert client.ask({"instances": ["a"] * 513}) == (400, {"error": message})
  assert client.ask({"instances": ["a"] * 512})[0] == 200
  message = "the request has more than 10000 bytes (max_request_bytes)"
  body = b'{"instances": ["a"]}'
  assert client.ask(body.ljust(10_001)) == (413, {"error": message})
  assert client.ask(body.ljust(10_000))[0] == 200


PATHS = """
  /v1/models/../../../etc/passwd /v1/models/..%2f..%2f..%2fetc%2fpasswd
  /v1/models/%2e%2e/versions/7 /v1/models/%00 /v1/models/%ff%fe
  /v1/models/toy%0d%0aSet-Cookie:x /v1/models /..%2fapp.py /app.py
"""


@pytest.mark.parametrize("path", PATHS.split())
def test_no_url_reads_a_file_from_the_disk(client, path):
  status, headers, body = client.request("GET", path)
  assert status in (400, 404)
  assert headers["content-type"] == "application/json"
  assert "set-cookie" not in headers
  assert json.loads(body).keys() == {"error"}


HOSTILE = {
  "no UTF-8": b'{"instances": ["\xff"]}',
  "deep": b'{"instances": ' + b"[" * 3000 + b"]" * 3000 + b"}",
  "deep objects": b'{"inputs": ' + b'{"text": ' * 500 + b"1" + b"}" * 501,
  "long number": b'{"instances": [' + b"9" * 5000 + b"]}",
  "half a surrogate as a name": b'{"instances": [{"\\udc00": "a"}]}',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_requests_get_400_and_do_no_harm(client, body):
  status, answer = client.ask(body)
  assert status == 400 and answer.keys() == {"error"}
  assert 0 < len(answer["error"]) < 600
  assert client.ask({"instances": ["a"]})[0] == 200


def test_a_status_has_all_versions_from_the_newest_to_the_oldest():
  model = stand_in.Model("two", "none", 2, None)
  model.states = {0: ("AVAILABLE", ""), 10: ("END", "/a/10 is damaged")}
  with stand_in.running([model]) as client:
    status, answer = client.get("/v1/models/two")
    _, old = client.get("/v1/models/two/versions/00")
  new, *others = answer["model_version_status"]
  assert (status, others) == (200, old["model_version_status"])
  assert others == [_status("0", "AVAILABLE", "OK", "")]
  message = "could not be loaded: the server's log says why"  # no path
  assert new == _status("10", "END", "INTERNAL", message)


def test_a_model_that_is_not_loaded_is_not_ready():
  slow, toy = (stand_in.Model(n, "none", 1, None) for n in ("slow", "toy"))
  toy.versions = {number: stand_in.Version() for number in (1, 2)}
  toy.versions[1].facts = {"task": "an old one"}
  with stand_in.running([slow, toy]) as client:
    status, _, body = client.request("GET", "/readyz")
    assert (status, body) == (503, b"not loaded: slow\n")
    metrics = client.request("GET", "/metrics")[2]
    assert b'serving_version{model="slow"} 0.0' in metrics
    assert b'serving_version{model="toy"} 2.0' in metrics
    assert client.get("/models")[1]["facts"] == {"toy": {"task": "none"}}
    assert client.request("GET", "/healthz")[0] == 200
    request = ("/v1/models/slow:predict", b'{"instances": ["a"]}')
    status, headers, body = client.request("POST", *request)
    assert (status, headers["retry-after"]) == (503, "1")
    message = "model slow is loading: try again later"
    assert json.loads(body) == {"error": message}


def test_metrics_count_requests_and_texts(client):
  client.ask({"instances": ["a", "b"]})
  client.ask({"instances": ["a"]}, "/v1/models/a_stranger:predict")
  client.ask(b"{")
  status, headers, body = client.request("GET", "/metrics")
  text = body.decode()
  rows = (row.rsplit(" ", 1) for row in text.splitlines() if row[0] != "#")
  values = {name: float(value) for name, value in rows}
  assert status == 200 and headers["content-type"].startswith("text/plain")
  assert values['serving_requests_total{model="toy",status="200"}'] >= 1
  assert values['serving_requests_total{model="toy",status="400"}'] >= 1
  assert values['serving_requests_total{model="",status="404"}'] >= 1
  assert values['serving_seconds_count{model="toy"}'] >= 1
  assert 0 < values['serving_seconds_sum{model="toy"}'] < 600
  assert values['serving_queue_texts{model="toy"}'] == 0
  assert values['serving_version{model="toy"}'] == 7
  assert "stranger" not in text


NAMES = ("", "page.css", "page.js", "answers.css", "answers.js")


@pytest.mark.parametrize("name", NAMES)
def test_the_page_loads_nothing_from_other_hosts(client, name):
  status, headers, body = client.request("GET", f"/{name}")
  assert status == 200 and "server" not in headers
  # Browsers accept only these types for styles and scripts.
  kind = {"": "html", "css": "css", "js": "javascript"}[name.partition(".")[2]]
  assert headers["content-type"] == f"text/{kind}; charset=utf-8"
  assert headers["x-content-type-options"] == "nosniff"
  policy = headers["content-security-policy"].split("; ")
  assert policy[0] == "default-src 'none'"
  for needed in ("script", "style", "connect"):
    assert f"{needed}-src 'self'" in policy
  assert b"http" not in body.replace(b"http-equiv", b"")
  assert b"innerHTML" not in body


def test_overload_gets_503_and_one_line_a_minute(tmp_path, caplog, monkeypatch):
  # Other tests may have logged the message less than a minute ago.
  monkeypatch.setattr(logging, "_log_timer_per_token", {})
  settings = stand_in.SETTINGS._replace(max_queue_size=2)
  with (
    stand_in.toy(tmp_path, settings) as client,
    ThreadPoolExecutor(3) as pool,
  ):
    for number in range(3):  # the first request is running, two wait
      pool.submit(client.ask, stand_in.GATED)
      assert client.version.started.wait(10)
      stand_in.wait_until(lambda n=number: client.version.workers.queued == n)
    metrics = client.request("GET", "/metrics")[2]
    assert b'serving_queue_texts{model="toy"} 2.0' in metrics
    message = "the queue is full (max_queue_size=2)"
    for _ in range(2):
      error = {"error": f"{message}: try again later"}
      assert client.ask(stand_in.GATED) == (503, error)
    client.version.gate.set()
  assert [x for x in caplog.messages if "max_queue_size" in x] == [message]


def test_a_request_leaves_the_queue_if_its_client_ends_the_connection(tmp_path):
  path, body = "/v1/models/toy:predict", json.dumps(stand_in.GATED)
  with stand_in.toy(tmp_path) as client:
    connections = [client.keep_alive() for _ in range(3)]
    for number, connection in enumerate(connections):
      connection.request("POST", path, body)
      assert client.version.started.wait(10)
      stand_in.wait_until(lambda n=number: client.version.workers.queued == n)
    connections[1].close()
    stand_in.wait_until(lambda: client.version.workers.queued == 1)
    client.version.gate.set()
    assert [connections[i].getresponse().status for i in (0, 2)] == [200, 200]
    metrics = client.request("GET", "/metrics")[2]
    assert b'serving_requests_total{model="toy",status="499"} 1.0' in metrics


def test_running_and_waiting_requests_get_504_after_the_limit(tmp_path):
  settings = stand_in.SETTINGS._replace(request_timeout=1.0)
  with stand_in.toy(tmp_path, settings) as client:
    for _ in range(2):  # the first request is running, the second waits
      message = "the answer did not come in time (request_timeout)"
      assert client.ask(stand_in.GATED) == (504, {"error": message})
    client.version.gate.set()
    assert client.ask({"instances": ["a"]})[0] == 200
