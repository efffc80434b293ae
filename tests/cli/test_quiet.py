"""TensorFlow and Keras without log lines and unused libraries."""

import ctypes
import logging
import os
import sys

import pytest
import tensorflow as tf

from cli import start_up


def test_a_level_of_the_user_stays(monkeypatch):
  monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
  start_up.silence_tensorflow()
  assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"
  assert tf.get_logger().getEffectiveLevel() == logging.WARNING
  monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
  start_up.silence_tensorflow()
  assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"


def test_the_function_that_silences_xla_is_in_the_library():
  loaded = ctypes.CDLL(None)
  names = start_up._SET_MIN_LOG_LEVEL
  assert [name for name in names if hasattr(loaded, name)]


def test_unused_libraries_are_hidden_from_keras_alone(monkeypatch):
  monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
  monkeypatch.setattr(start_up, "_UNUSED", ("colorsys",))
  monkeypatch.delitem(sys.modules, "colorsys", raising=False)
  start_up.hide_unused_libraries()
  for importer in ("keras.src.any", "tensorflow.python.any"):
    message = f"colorsys is hidden from {importer}"
    with pytest.raises(ImportError, match=message):
      exec("import colorsys", {"__name__": importer})
    exec("import colorsys", {"__name__": "kerasana"})  # another library
    assert sys.modules.pop("colorsys")
