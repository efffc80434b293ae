"""Messages of TensorFlow about a model that is written are suppressed."""

import logging
import os

from serving import quiet


def test_information_and_standard_error_are_suppressed(
  capfd, caplog, monkeypatch
):
  monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
  with caplog.at_level("INFO", logger="absl"):
    with quiet.no_information(), quiet.no_stderr():
      logging.getLogger("absl").info("hidden")
      os.write(2, b"hidden")
    logging.getLogger("absl").info("shown")
    os.write(2, b"shown")
  assert "hidden" not in caplog.text
  assert "shown" in caplog.text
  assert capfd.readouterr().err.endswith("shown")
