"""Suppressed log messages of libraries."""

import logging
import os

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
