"""Tasks done by several processes, with errors that say what was being done."""

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any


def run(
  prepare: Callable[[], Callable[[Any], Any]],
  tasks: Sequence[Any],
  processes: int,
  idle: Callable[[], None] = lambda: None,
) -> Iterator[tuple[int, Any]]:
  """Does every task in one of several processes.

  Args:
    prepare: called once in each process; returns what does a task. It and the
      tasks are pickled, since processes start fresh.
    tasks: what to do; `str` of one appears in messages.
    processes: how many, at most.
    idle: called when no task was finished for five seconds.

  Yields:
    Number of a task and its result, as they come in.

  Raises:
    ChildProcessError: a process died.
    Exception: what a task raised.
  """
  # Forking would copy the parent's threads and locks in whatever state.
  context = multiprocessing.get_context("spawn")
  waiting = iter(enumerate(tasks))
  busy = {}  # connection to number of the task
  children = []
  try:
    for number, task in zip(range(processes), tasks, strict=False):
      next(waiting)
      ours, theirs = context.Pipe()
      child = context.Process(target=_serve, args=(theirs, prepare))
      child.start()
      theirs.close()  # so that a dead child is an end of file here
      children.append(child)
      busy[ours] = number
      ours.send(task)
    while busy:
      ready = wait(busy, timeout=5)
      if not ready:
        idle()
      for connection in ready:
        number = busy.pop(connection)
        result = _receive(connection, tasks[number])
        for following, task in [next(waiting, (None, None))]:
          if following is not None:
            connection.send(task)
            busy[connection] = following
        yield number, result
  finally:
    for child in children:
      child.terminate()
      child.join()


def _receive(connection: Connection, task: Any) -> Any:
  try:
    result, error = connection.recv()
  except EOFError:
    raise ChildProcessError(
      f"a worker process died while it worked on {task}; if it ran out of "
      "memory, use fewer workers"
    ) from None
  if error:
    raise error
  return result


def _serve(connection: Connection, prepare: Callable) -> None:
  """Does tasks until it is terminated, or the parent is gone."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent sees to that
  work = None
  while True:
    try:
      task = connection.recv()
    except EOFError:
      return
    try:
      work = work or prepare()
      answer = work(task), None
    except Exception as error:
      error.add_note(f"In a worker process:\n{traceback.format_exc()}")
      answer = None, error
    connection.send(answer)
