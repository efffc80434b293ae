"""serve.py: flags, and its end by a signal under load."""

import json
import os
import shutil
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

from predictor import Predictor
from serving import export
from tests import programs, stages
from tests.serving import tasks
from tests.serving.server import client
from tests.serving.server.stand_in import Client, wait_until


def test_two_models_with_the_same_name_are_refused(tmp_path):
  for name in ("a/1", "b/a/1"):
    (tmp_path / name).mkdir(parents=True)
  flags = f"--model={tmp_path}/a --model={tmp_path}/b/a"
  _check_mistake(flags, "two models are called a: rename one, as in")


def test_an_address_in_use_is_reported(tmp_path):
  (tmp_path / "1").mkdir()
  with socket.create_server(("127.0.0.1", 0)) as other:
    flags = f"--host=127.0.0.1 --port={other.getsockname()[1]}"
    message = f"cannot listen at {flags}: Address"
    _check_mistake(f"--model={tmp_path} {flags}", message)


def _check_mistake(flags, message):
  done = programs.python(["serve.py", *flags.split()])
  assert done.returncode == 1
  [line] = done.stderr.splitlines()
  assert message in line


FLAGS = """--engine=litert_float16 --max_queue_size=2 --poll_seconds=0
--num_versions=2 --access_log --cors_origins=null,https://a.example:8443"""


def test_flags_of_serve_py_reach_the_server(folders, tmp_path, capfd, request):
  folder = folders["tagging"]
  (tmp_path / "m/1").mkdir(parents=True)
  for number in (2, 3):
    (tmp_path / f"m/{number}").symlink_to(folder)
  (tmp_path / "slow").mkdir()
  (tmp_path / "slow/model_float16.tflite").touch()
  os.mkfifo(tmp_path / "slow/task.json")  # this model is never loaded
  # Ignore SIGHUP like nohup: a closed terminal must not end the server.
  before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
  request.addfinalizer(lambda: signal.signal(signal.SIGHUP, before))
  program, port = client.start(
    tmp_path / "m",
    f"--model=other={folder}",  # /metrics counts each model's texts
    f"--model={tmp_path}/slow",
    *FLAGS.split(),
  )
  program.send_signal(signal.SIGHUP)
  server, texts = Client(port), ["ab c", "d"]
  _, answer = server.ask({"instances": texts}, client.PATH)
  assert answer["predictions"] == Predictor(folder, "litert_float16")(texts)
  _, answer = server.ask({"instances": ["a"] * 3}, client.PATH)
  assert "send at most 2 at a time (--max_queue_size)" in answer["error"]
  metrics = server.request("GET", "/metrics")[2].decode()
  assert f'serving_batch_texts_sum{{model="{client.NAME}"}} 2.0' in metrics
  headers = server.request("GET", "/", headers={"Origin": "null"})[1]
  assert headers["access-control-allow-origin"] == "null"
  _, status = server.get(client.PATH.removesuffix(":predict"))
  versions = status["model_version_status"]
  assert [version["version"] for version in versions] == ["3", "2"]
  program.send_signal(signal.SIGTERM)
  log = program.stderr.read()
  assert program.wait(30) == 0, log
  assert "all requests are answered" in log
  lines = capfd.readouterr().out.splitlines()
  # --access_log writes a line for each of the five requests above.
  assert len(lines) == 5 and f'"POST {client.PATH} HTTP/1.1" 200' in lines[0]


def test_max_queue_size_limits_the_queue_of_a_version(folders, monkeypatch):
  version = mock.Mock()
  wait = lambda *_, **__: wait_until(lambda: version.called)  # noqa: E731
  monkeypatch.setattr("serving.server.version.Version", version)
  monkeypatch.setattr("serving.server.connections.Server.run", wait)
  monkeypatch.setattr(signal, "signal", mock.Mock())
  flags = {"model": (str(folders["tagging"]),), "max_queue_size": 2}
  stages.program("serve").main(programs.arguments("serve", **flags, port=0))
  assert version.call_args[0][1] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
  "ending", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
)
def test_no_request_is_lost_at_a_signal_or_a_new_version(tmp_path, ending):
  export.save(str(tmp_path / "1"), tasks.make("tagging"), ["tflite"])
  program, port = client.start(tmp_path)
  texts, log = ["abc"] * 4, []
  body, end = json.dumps({"instances": texts}), time.monotonic() + 100
  pool = ThreadPoolExecutor(8)
  for _ in range(8):
    pool.submit(client.ask, port, body, end, log)
  shutil.copytree(tmp_path / "1", tmp_path / "unfinished")
  (tmp_path / "unfinished").rename(tmp_path / "2")
  path = f"/v1/models/{client.NAME}/versions/2"
  wait_until(lambda: b"AVAILABLE" in Client(port).request("GET", path)[2])
  program.send_signal(ending)
  messages = program.stderr.read()
  assert program.wait(30) == 0, messages
  pool.shutdown()
  assert len(log) > 50
  answer = 200, Predictor(tmp_path / "1")(texts)
  assert all(other == answer for other in log)
  assert "all requests are answered" in messages
