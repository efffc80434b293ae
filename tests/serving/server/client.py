"""Starts serve.py and sends requests until the server stops."""

import http.client
import json
import re
import subprocess
import sys
import time
from pathlib import Path

NAME = "load"
PATH = f"/v1/models/{NAME}:predict"
ROOT = Path(__file__).parents[3]


def start(model, *flags, python=(sys.executable,), env=None):
  """Returns the process and port of a ready server."""
  model_flag = f"--model={NAME}={model}"
  command = [*python, "serve.py", model_flag, "--port=0", *flags]
  process = subprocess.Popen(
    command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True
  )
  for line in process.stderr:
    if match := re.search(r"http://127.0.0.1:(\d+)", line):
      port = int(match[1])
    if "AVAILABLE" in line:
      return process, port
  raise ValueError(f"serve.py ended: is --model={model} a SavedModel?")


def ask(port, body, end, log):
  """Sends a body again and again; logs (status, predictions) of the answers.

  The status of a lost answer is 0. Stops at `end` (time.monotonic()) or when
  the server refuses a connection.
  """
  connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
  while time.monotonic() < end:
    answer = 0, None
    try:
      connection.request("POST", PATH, body)
      response = connection.getresponse()
      answer = response.status, json.loads(response.read()).get("predictions")
    except ConnectionRefusedError:
      return
    except (OSError, http.client.HTTPException):
      connection.close()
    log.append(answer)
