"""Worker: runs a command to the end."""

import os
import subprocess
import time

from benchmarks.worker import Answer


def prepare(command: list[str], log: str = os.devnull) -> Answer:
  """Runs the command at each request, with standard error in a log."""

  def answer(input=""):
    begin, pipe = time.perf_counter(), subprocess.PIPE
    with open(log, "w") as file:
      process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=file, text=True
      )
      with process.stdin as stdin:
        stdin.write(input)
      output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    if status:
      raise ValueError(f"{' '.join(command)} failed, see {log}")
    return {
      "output": output,
      "seconds": seconds,
      "cpu_seconds": usage.ru_utime + usage.ru_stime,
    }

  return answer
