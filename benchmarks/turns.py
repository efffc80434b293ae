"""Workers, kept warm, that take turns: libraries measured beside each other.

Each library runs in a process of its own, is asked by a line of JSON and
answers with one. Whoever asks goes from one to the next and back, so that what
else runs on the machine meets them alike.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence


class Worker:
  """A process that answers.

  Arguments:
    command: starts it; its program calls `serve`.
    environment: its variables; None for ours.
  """

  def __init__(
    self, command: Sequence[str], environment: Mapping[str, str] | None = None
  ):
    pipe = subprocess.PIPE
    self._process = subprocess.Popen(
      command, stdin=pipe, stdout=pipe, text=True, env=environment
    )

  def ask(self, **request) -> dict:
    """Its answer to a request; ValueError if it has ended."""
    print(json.dumps(request), file=self._process.stdin, flush=True)
    line = self._process.stdout.readline()
    if not line:
      command = " ".join(self._process.args)
      raise ValueError(f"{command} has ended: {self._process.wait()}")
    return json.loads(line)

  def close(self) -> None:
    """Ends it."""
    self._process.stdin.close()
    self._process.wait()


def serve(answer: Callable[..., dict]) -> None:
  """A worker's main loop: answers requests until there are no more.

  Args:
    answer: from the fields of a request to those of its answer, to which
      `peak` is added, the most memory so far in MB.
  """
  for line in sys.stdin:
    found = answer(**json.loads(line))
    found["peak"] = _peak()
    print(json.dumps(found), flush=True)


def _peak():
  """Most memory so far in MB; ru_maxrss begins with that of the parent."""
  with open("/proc/self/status") as file:
    [line] = [line for line in file if line.startswith("VmHWM:")]
  return int(line.split()[1]) / 1024
