"""Processes: roles in TF_CONFIG, interrupts, child and worker processes."""

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from absl import logging

from storage import UserError

_IS_CHILD = "BERT_IS_CHILD"  # environment variable that run_child sets
_INTERRUPTED = 128 + signal.SIGTERM


def is_chief() -> bool:
  """True in the chief, by default worker 0; ValueError for a bad TF_CONFIG."""
  cluster, task = _cluster_config()
  if cluster.get("chief"):
    return task.get("type") == "chief"
  return task.get("type", "worker") == "worker" and not task.get("index", 0)


def has_others() -> bool:
  """True if several processes train together."""
  return sum(map(len, _cluster_config()[0].values())) > 1


def _cluster_config():
  """Returns `cluster` and `task` of TF_CONFIG."""
  text = os.environ.get("TF_CONFIG") or "{}"
  try:
    config = {"cluster": {}, "task": {}} | json.loads(text)
    cluster, task = config["cluster"], config["task"]
    if not (isinstance(cluster, dict) and isinstance(task, dict)):
      raise TypeError
    if cluster:
      cluster[task["type"]][task.get("index", 0)]
      is_worker = task["type"] in ("chief", "worker")
      is_worker &= task.get("index", 0) >= 0
      match = re.compile(r"([^:/]+|\[.+\]):\d+").fullmatch
      for hosts in cluster.values():
        is_worker &= isinstance(hosts, list) and all(map(match, hosts))
      if not is_worker:
        raise ValueError
  except (ValueError, TypeError, LookupError) as error:
    raise UserError(
      f"TF_CONFIG={text} must be JSON with `cluster`, lists of HOST:PORT for "
      "chief and worker, and `task`, the type and the index of one of these"
    ) from error
  return cluster, task


@contextmanager
def graceful_shutdown(
  child: subprocess.Popen | None = None,
) -> Iterator[SimpleNamespace]:
  """Context in which SIGTERM, SIGHUP and one Ctrl-C only set `requested`.

  A second Ctrl-C ends the process at once. SIGHUP, the signal of a closed
  terminal, stays ignored after `nohup`. A `child` process gets SIGTERM, too,
  and logs the interruption itself.
  """
  shutdown = SimpleNamespace(requested=False)

  def handle(number, _):  # as soon as TensorFlow returns to Python
    shutdown.requested = True
    if number == signal.SIGINT:
      signal.signal(signal.SIGINT, signal.SIG_DFL)
    if child:
      child.terminate()
    elif number == signal.SIGINT:
      logging.warning(
        "interrupted: a checkpoint will be saved after the current steps; "
        "Ctrl-C once more ends at once"
      )

  numbers = [signal.SIGTERM, signal.SIGINT]
  if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
    numbers.append(signal.SIGHUP)
  before = {number: signal.signal(number, handle) for number in numbers}
  try:
    yield shutdown
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)


def run_child(command: list[str]) -> int:
  """Runs a command and returns the status, or exits if interrupted."""
  with (
    subprocess.Popen(command, env=os.environ | {_IS_CHILD: "1"}) as child,
    graceful_shutdown(child) as interruption,
  ):
    status = child.wait()
  if interruption.requested or status == _INTERRUPTED:
    logging.info("interrupted: repeat the command to resume")
    end_interrupted()
  return status


def end_interrupted() -> None:
  """Exits with 0, or with 143 in a child process or with several workers.

  For the parent process, and for a supervisor of workers, 0 means complete.
  """
  sys.exit(_INTERRUPTED if _IS_CHILD in os.environ or has_others() else 0)


# --- Worker processes -------------------------------------------------------

# A ProcessPoolExecutor would not name a dead worker's task, would wait for all
# tasks after a failure, and would outlive a parent that is killed.


class Chunk(NamedTuple):
  """Consecutive items of a sequence, from index `first` on."""

  first: int
  items: Sequence[Any]
  noun: str  # for items in messages, such as "examples"

  def __str__(self) -> str:
    return f"{self.noun} {self.first} to {self.first + len(self.items) - 1}"


def chunks(items: Sequence[Any], size: int, noun: str) -> list[Chunk]:
  starts = range(0, len(items), size)
  return [Chunk(start, items[start : start + size], noun) for start in starts]


def ordered_map(
  prepare: Callable[[], Callable[[Any], Any]],
  tasks: Sequence[Any],
  processes: int,
) -> Generator[Any, None, None]:
  """Yields the result of every task, in the order of the tasks.

  Each process calls `prepare` once, and the returned function for each task.
  With fewer than two processes or tasks, this process does them. Otherwise
  `prepare`, tasks and results are pickled. ChildProcessError names a lost task.
  """
  processes = min(processes, len(tasks))
  if processes < 2:
    yield from map(prepare(), tasks)
    return
  results, following = {}, 0
  for number, result in _as_completed(prepare, tasks, processes):
    results[number] = result
    while following in results:
      yield results.pop(following)
      following += 1


def _as_completed(prepare, tasks, processes) -> Iterator[tuple[int, Any]]:
  # Forking would copy the parent's locks, which other threads may hold.
  context = multiprocessing.get_context("spawn")
  waiting = iter(enumerate(tasks))
  busy: dict[Connection, int] = {}  # {connection: number of the task}
  children = []
  number, error = 0, None
  try:
    connections = []
    for _ in range(processes):
      connection, child_end = context.Pipe()
      child = context.Process(target=_serve, args=(child_end, prepare))
      child.start()
      children.append(child)
      child_end.close()  # recv() then raises EOFError for a dead child
      connections.append(connection)
    # Sending blocks until a child reads. So all children start first.
    for connection, (number, task) in zip(connections, waiting, strict=False):
      busy[connection] = number
      connection.send(task)
    while busy and not error:
      for end in wait(busy):
        connection = cast(Connection, end)
        done = number = busy.pop(connection)
        result, error = connection.recv()
        if error:
          break
        if pair := next(waiting, None):
          number, task = pair
          busy[connection] = number
          connection.send(task)
        yield done, result
  except (EOFError, OSError):
    raise ChildProcessError(
      f"a worker process died on {tasks[number]}; if it lacked memory, "
      "use fewer workers"
    ) from None
  finally:
    for child in children:
      child.terminate()
      child.join()
  if error:
    raise error


def _serve(connection: Connection, prepare: Callable) -> None:
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
  function = None
  with suppress(EOFError, ConnectionError):  # the parent is gone
    while True:
      task = connection.recv()
      try:
        function = function or prepare()
        answer = function(task), None
      except Exception as error:
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        answer = None, error
      connection.send(answer)
