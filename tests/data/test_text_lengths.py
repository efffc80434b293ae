from data.write_records import log_lengths


def test_long_texts_are_counted_and_a_length_is_suggested(caplog):
  caplog.set_level("INFO", logger="absl")
  log_lengths("train.tsv", {30: 90, 100: 9, 300: 1}, 64)
  [record] = caplog.records
  assert record.levelname == "WARNING"
  assert record.getMessage() == (
    "train.tsv: max_seq_length=64 is exceeded by 10 of 100 texts (10.0 %): "
    "their ends are cut off; the longest has 300 tokens; max_seq_length=128 "
    "would hold 99.0 %"
  )


def test_one_text_is_one_text(caplog):
  caplog.set_level("INFO", logger="absl")
  log_lengths("x", {100: 1}, 64)
  assert "exceeded by 1 of 1 text (100.0 %)" in caplog.text
  # The suggestion is the longest length, not the next usual length.
  assert "max_seq_length=100 would hold 100.0 %" in caplog.text
  log_lengths("x", {100: 1}, 64, flag="max_text_length")
  assert "max_text_length=64 is exceeded by 1 of 1" in caplog.text
  assert "max_text_length=100 would hold 100.0 %" in caplog.text


def test_few_long_texts_are_no_warning_and_none_no_line(caplog):
  caplog.set_level("INFO", logger="absl")
  log_lengths("x", {30: 999, 100: 1}, 64)
  assert [record.levelname for record in caplog.records] == ["INFO"]
  caplog.clear()
  log_lengths("x", {30: 99, 64: 1}, 64)
  assert not caplog.records
