"""Suppression of log messages of TensorFlow and absl."""

import contextlib
import logging
import os
from collections.abc import Iterator


def silence_tensorflow() -> None:
  """Suppresses logs of TensorFlow's C++; call it before TensorFlow is imported.

  A value in the environment takes precedence: TF_CPP_MIN_LOG_LEVEL=0 shows
  everything.
  """
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@contextlib.contextmanager
def no_information() -> Iterator[None]:
  """Context in which Python's loggers of absl and TensorFlow only warn.

  TensorFlow logs a line for each name that it saves.
  """
  loggers = [logging.getLogger(name) for name in ("absl", "tensorflow")]
  before = [logger.level for logger in loggers]
  for logger in loggers:
    logger.setLevel(logging.WARNING)
  try:
    yield
  finally:
    for logger, level in zip(loggers, before, strict=True):
      logger.setLevel(level)


@contextlib.contextmanager
def no_stderr() -> Iterator[None]:
  """Context in which the process' standard error is /dev/null.

  The LiteRT converter's C++ logs there at any TF_CPP_MIN_LOG_LEVEL. Errors
  still come as Python exceptions.
  """
  if os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "3":
    yield
    return
  stderr, devnull = os.dup(2), os.open(os.devnull, os.O_WRONLY)
  os.dup2(devnull, 2)
  try:
    yield
  finally:
    os.dup2(stderr, 2)
    os.close(stderr)
    os.close(devnull)
