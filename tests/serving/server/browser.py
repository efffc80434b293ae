"""Drives a headless Chromium with the DevTools protocol over pipes."""

import json
import os
import shutil
import subprocess
import time

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = """
  --headless --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage
  --disable-background-networking --remote-debugging-pipe
""".split()


def find():
  return next(filter(None, map(shutil.which, NAMES)), None)


installed = pytest.mark.skipif(
  not find(), reason="needs a browser: apt-get install chromium"
)


class Browser:
  """A browser page with a private profile folder."""

  def __init__(self, folder):
    reads, self._commands = os.pipe()  # the browser reads descriptor 3
    self._answers, writes = os.pipe()  # the browser writes descriptor 4
    command = (find(), *FLAGS, f"--user-data-dir={folder}", "about:blank")
    # The shell renumbers the pipes. Popen keeps the numbers of descriptors.
    shell = f'exec 3<&{reads} 4>&{writes}; exec "$@"'
    self._process = subprocess.Popen(
      ["/bin/bash", "-c", shell, "browser", *command],
      pass_fds=(reads, writes),
      stderr=subprocess.DEVNULL,
    )
    os.close(reads)
    os.close(writes)
    self._number, self._session, self._rest = 0, None, b""
    target = self._call("Target.createTarget", url="about:blank")
    self._session = self._call("Target.attachToTarget", **target, flatten=True)[
      "sessionId"
    ]
    self._call("Page.enable")

  def _call(self, method, **params):
    self._number += 1
    message = {"id": self._number, "method": method, "params": params}
    if self._session:
      message["sessionId"] = self._session
    os.write(self._commands, json.dumps(message).encode() + b"\0")
    while True:
      while b"\0" not in self._rest:
        part = os.read(self._answers, 1 << 16)
        assert part, "the browser has ended"
        self._rest += part
      text, _, self._rest = self._rest.partition(b"\0")
      answer = json.loads(text)
      if answer.get("id") == self._number:
        assert "error" not in answer, answer
        return answer["result"]

  def open(self, url):
    self._call("Page.navigate", url=url)

  def run(self, script):
    """Returns the value of a JavaScript expression."""
    answer = self._call(
      "Runtime.evaluate",
      expression=script,
      awaitPromise=True,
      returnByValue=True,
    )
    assert "exceptionDetails" not in answer, answer
    return answer["result"].get("value")

  def wait(self, script):
    """Waits until an expression is true, then returns the value."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
      if value := self.run(script):
        return value
      time.sleep(0.05)
    raise AssertionError(f"{script}: {self.run('document.body.innerText')}")

  def close(self):
    self._call("Browser.close")
    self._process.wait(20)
    os.close(self._commands)
    os.close(self._answers)
