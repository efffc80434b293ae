"""Runs tasks in several processes. An error names the task of a dead worker.

A ProcessPoolExecutor would not name the task, would wait for other tasks after
a failure, and would leave workers behind if the parent is killed.
"""

import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, cast


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
  idle: Callable[[], None] = lambda: None,
) -> Generator[Any, None, None]:
  """Yields the result of every task, in the order of the tasks.

  Each process calls `prepare` once, and the returned function for each task.
  With fewer than two processes or tasks, this process does them. Otherwise
  `prepare`, tasks and results are pickled, and `idle` is called after each 5
  seconds without a result. ChildProcessError names a dead worker's task.
  """
  processes = min(processes, len(tasks))
  if processes < 2:
    yield from map(prepare(), tasks)
    return
  results, following = {}, 0
  for number, result in _as_completed(prepare, tasks, processes, idle):
    results[number] = result
    while following in results:
      yield results.pop(following)
      following += 1


def _as_completed(prepare, tasks, processes, idle) -> Iterator[tuple[int, Any]]:
  # Forking would copy the parent's locks, which other threads may hold.
  context = multiprocessing.get_context("spawn")
  waiting = iter(enumerate(tasks))
  busy: dict[Connection, int] = {}  # {connection: number of the task}
  children = []
  try:
    connections = []
    for _ in range(processes):
      connection, child_end = context.Pipe()
      child = context.Process(target=_serve, args=(child_end, prepare))
      # The child inherits the signal mask, so only the parent handles Ctrl-C.
      mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
      try:
        child.start()
        children.append(child)
      finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
      child_end.close()  # recv() then raises EOFError for a dead child
      connections.append(connection)
    # Sending blocks until a child reads. So all children start first.
    for connection, (number, task) in zip(connections, waiting, strict=False):
      _send(connection, task)
      busy[connection] = number
    while busy:
      ready = wait(busy, timeout=5)
      if not ready:
        idle()
      for end in ready:
        connection = cast(Connection, end)
        number = busy.pop(connection)
        try:
          result, error = connection.recv()
        except (EOFError, OSError):
          raise ChildProcessError(
            f"a worker process died on {tasks[number]}; if it lacked memory, "
            "use fewer workers"
          ) from None
        if error:
          raise error
        for following, task in islice(waiting, 1):
          _send(connection, task)
          busy[connection] = following
        yield number, result
  finally:
    for child in children:
      child.terminate()
      child.join()


def _send(connection: Connection, task: object) -> None:
  with suppress(OSError):  # the worker is dead, so recv() will raise
    connection.send(task)


def _serve(connection: Connection, prepare: Callable) -> None:
  function = None
  with suppress(EOFError, ConnectionError):  # the parent is gone
    while True:
      task = connection.recv()
      try:
        function = function or prepare()
        answer = function(task), None
      except Exception as error:
        text = f"In a worker process:\n{traceback.format_exc()}"
        error.add_note(text)
        try:
          answer = None, pickle.loads(pickle.dumps(error))
        except Exception:  # the parent could not unpickle the error
          answer = None, RuntimeError(text)
      connection.send(answer)
