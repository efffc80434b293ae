"""Starts serve.py and sends requests until the server stops."""

import http.client
import json
import random
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
  own = f"--model={NAME}={model}"
  command = [*python, "serve.py", own, "--port=0", *flags]
  process = subprocess.Popen(
    command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True
  )
  for line in process.stderr:
    if match := re.search(r"http://127.0.0.1:(\d+)", line):
      port = int(match[1])
    if "AVAILABLE" in line:
      return process, port
  raise ValueError(f"serve.py ended: is --model={model} a SavedModel?")


def ask(port, cases, end, seed, log):
  """Sends random (body, expected predictions) pairs one after another.

  Logs (status, milliseconds, is right). The status of a lost answer is 0. Stops
  at `end` (time.monotonic()) or when the server refuses a connection.
  """
  order = random.Random(seed)
  connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
  while time.monotonic() < end:
    body, expected = order.choice(cases)
    begin, status, answer = time.perf_counter(), 0, None
    try:
      connection.request("POST", PATH, body)
      response = connection.getresponse()
      status, answer = response.status, json.loads(response.read())
    except ConnectionRefusedError:
      return
    except (OSError, http.client.HTTPException):
      connection.close()
    right = status != 200 or is_same(answer["predictions"], expected)
    log.append((status, 1000 * (time.perf_counter() - begin), right))


def is_same(a, b):
  if isinstance(a, dict | list):
    keys = a if isinstance(a, dict) else range(len(a))
    return len(a) == len(b) and all(is_same(a[key], b[key]) for key in keys)
  return abs(a - b) < 1e-4 if isinstance(a, float) else a == b
