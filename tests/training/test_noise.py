"""Suppressed log messages of libraries."""

import ctypes
import logging
import os

import pytest
import tensorflow as tf

from tests import programs
from training import process


def test_a_level_of_the_user_stays(monkeypatch):
  monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
  process.silence_tensorflow()
  assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"
  monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
  process.silence_tensorflow()
  assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"


def test_information_and_standard_error_are_suppressed(
  capfd, caplog, monkeypatch
):
  monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
  with caplog.at_level("INFO", logger="absl"):
    with process.no_information(), process.no_stderr():
      logging.getLogger("absl").info("hidden")
      os.write(2, b"hidden")
    logging.getLogger("absl").info("shown")
    os.write(2, b"shown")
  assert "hidden" not in caplog.text
  assert "shown" in caplog.text
  assert capfd.readouterr().err.endswith("shown")


def test_the_function_that_silences_xla_is_in_the_library():
  folder = os.path.dirname(tf.__file__)
  library = ctypes.CDLL(os.path.join(folder, "libtensorflow_framework.so.2"))
  assert hasattr(library, process._SET_MIN_LOG_LEVEL)


COMPILE = """
from training import process
process.silence_tensorflow()
import pytest
import tensorflow as tf
process.silence_xla()
tf.function(lambda x: x + 1, jit_compile=True)(tf.constant(1))
"""


@pytest.mark.slow  # it imports TensorFlow
def test_compiling_is_silent():
  environment = {k: v for k, v in os.environ.items() if k[:6] != "TF_CPP"}
  done = programs.python(["-c", COMPILE], check=True, env=environment)
  assert not done.stderr
