"""Lines about labels and lengths that are logged before training."""

import pytest
from absl import logging

from data import summaries


@pytest.fixture(name="log")
def _log(caplog, monkeypatch):
  caplog.set_level("INFO", logger="absl")
  monkeypatch.setattr(logging, "_log_counter_per_token", {})
  return caplog


def test_labels_are_counted(log):
  summaries.log_labels("train.tsv", ["b", "a", "b", "b"], ["a", "b", "c"])
  first, second = [record.getMessage() for record in log.records]
  assert first == "train.tsv: 4 examples; b: 3 (75.0 %), a: 1 (25.0 %)"
  assert second == "train.tsv: no example of 'c'"


def test_many_labels_are_shortened(log):
  summaries.log_labels("x", [f"label{i}" for i in range(30)] * 2)
  assert "30 in all, the rarest" in log.text


def test_labels_that_differ_in_case_or_blanks_are_named(log):
  for name in ("train.tsv", "dev.tsv"):
    summaries.log_labels(name, ["Sport", "sport", "spo rt", "music"])
  [warning] = [r for r in log.records if r.levelname == "WARNING"]
  assert warning.getMessage().startswith(
    "train.tsv: 'Sport' (1) and 'spo rt' (1) and 'sport' (1) differ"
  )
  assert "music" not in warning.getMessage()


def test_long_texts_are_counted_and_a_length_is_suggested(log):
  summaries.log_lengths("train.tsv", {30: 90, 100: 9, 300: 1}, 64)
  [record] = log.records
  assert record.levelname == "WARNING"
  assert record.getMessage() == (
    "train.tsv: --max_seq_length=64 is exceeded by 10 of 100 texts (10.0 %): "
    "their ends are cut off; the longest has 300 tokens; --max_seq_length=128 "
    "would hold 99.0 %"
  )


def test_one_text_is_one_text(log):
  summaries.log_lengths("x", {100: 1}, 64)
  summaries.log_labels("x", ["a"])
  assert "exceeded by 1 of 1 text (100.0 %)" in log.text
  assert "x: 1 example; a: 1" in log.text


def test_few_long_texts_are_no_warning_and_none_no_line(log):
  summaries.log_lengths("x", {30: 999, 100: 1}, 64)
  assert [record.levelname for record in log.records] == ["INFO"]
  log.clear()
  summaries.log_lengths("x", {30: 99, 64: 1}, 64)
  assert not log.records
