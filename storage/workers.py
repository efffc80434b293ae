"""Runs tasks in several processes. An error names the task of a dead worker.

A ProcessPoolExecutor would not name the task, would wait for other tasks after
a failure, and would leave workers behind if the parent is killed.
"""

import multiprocessing
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
) -> Generator[Any, None, None]:
  """Yields the result of every task, in the order of the tasks.

  Each process calls `prepare` once, and the returned function for each task.
  With fewer than two processes or tasks, this process does them. Otherwise
  `prepare`, tasks and results are pickled. ChildProcessError names a dead
  worker's task.
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
      connection.send(task)
      busy[connection] = number
    while busy:
      for end in wait(busy):
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
          connection.send(task)
          busy[connection] = following
        yield number, result
  finally:
    for child in children:
      child.terminate()
      child.join()


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
