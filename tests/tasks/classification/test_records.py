"""Records of texts with labels or scores."""

import functools
from collections import Counter

import pytest
import tensorflow as tf

from data import features, records, write_records
from tasks.classification.examples import TextExample, TextRecordBuilder


def test_twelve_labels_keep_their_order(tokenizer):
  labels = [str(number) for number in range(12)]
  build = TextRecordBuilder(tokenizer, 3, labels)
  rows = [build(TextExample("x", "a", None, label))[0] for label in labels]
  assert [row["label_ids"] for row in rows] == [[n] for n in range(12)]
  # A missing label becomes 0, and a missing example becomes zeros.
  assert build(TextExample("x", "a"))[0]["label_ids"] == [0]
  nothing = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), [0] * 3)
  nothing |= {"label_ids": [0], "is_real_example": [0]}
  assert build(None) == (nothing, [])


def test_a_record_may_have_a_score(tokenizer, tmp_path):
  build = TextRecordBuilder(tokenizer, 3, ())
  path = str(tmp_path / "x.tf_record")
  schema = features.classification(3, dtype="float32")
  examples = [TextExample("x", "a", None, "3.75"), TextExample("y", "b"), None]
  write_records.write_records(path, schema, examples, lambda: build)
  [batch] = tf.data.TFRecordDataset(path).batch(9).map(records.parser(schema))
  assert batch["label_ids"].numpy().tolist() == [3.75, 0, 0]
  assert batch["is_real_example"].numpy().tolist() == [1, 1, 0]


def test_two_processes_write_the_same_records(tokenizer, tmp_path, monkeypatch):
  monkeypatch.setattr(write_records, "_CHUNK", 3)
  write = write_records.write_records
  prepare = functools.partial(TextRecordBuilder, tokenizer, 8, ("no", "yes"))
  schema = features.classification(8)
  texts = ["a " * (i % 9) for i in range(40)]
  examples = [TextExample("x", text, "b", "yes") for text in texts]
  for processes in (1, 2):
    path = str(tmp_path / str(processes))
    lengths = write(path, schema, examples, prepare, processes)
    # Lengths are counted before the truncation to eight tokens.
    assert lengths == Counter(4 + i % 9 for i in range(40))
  first, second = (tmp_path / name for name in "12")
  assert first.read_bytes() == second.read_bytes()
  assert len(list(tf.data.TFRecordDataset(str(first)))) == 40
  wrong = [TextExample("x", "a", None, label) for label in ("no", "maybe")]
  with pytest.raises(KeyError, match="maybe"):
    write(str(tmp_path / "out"), schema, wrong * 3, prepare, 2)
  assert not (tmp_path / "out").exists()
