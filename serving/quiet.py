"""Contexts without messages of TensorFlow about a model that is written."""

import contextlib
import logging
import os
import threading
from collections.abc import Iterator

_stderr_lock = threading.Lock()


@contextlib.contextmanager
def no_information() -> Iterator[None]:
  """Context without TensorFlow's line for each name that it saves."""
  before = logging.root.manager.disable
  logging.disable(logging.INFO)
  try:
    yield
  finally:
    logging.disable(before)


@contextlib.contextmanager
def no_stderr() -> Iterator[None]:
  """Context in which standard error is /dev/null, for LiteRT's converter."""
  if os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "3":
    yield
    return
  with _stderr_lock:  # else a thread would restore what another has set
    stderr, devnull = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)
    try:
      yield
    finally:
      os.dup2(stderr, 2)
      os.close(stderr)
      os.close(devnull)
