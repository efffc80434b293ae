"""Records of texts: worked examples, and any number of processes."""

import functools
from collections import Counter

import pytest
import tensorflow as tf

from data import features, records
from tasks.classification import examples as classification_examples
from tasks.classification.examples import TextExample, TextRecordBuilder


def _fields(ids, segments, mask, label, real=1):
  return {
    "input_ids": ids,
    "input_mask": mask,
    "segment_ids": segments,
    "label_ids": [label],
    "is_real_example": [real],
  }


def test_twelve_labels_keep_their_order(tokenizer):
  labels = [str(number) for number in range(12)]
  build = TextRecordBuilder(tokenizer, 3, labels)
  ids = [build(TextExample("x", "a", None, x))["label_ids"] for x in labels]
  assert ids == [[number] for number in range(12)]


def test_what_is_not_known_is_zero(tokenizer):
  build = TextRecordBuilder(tokenizer, 3, ["no", "yes"])
  assert build(TextExample("x", "a"))["label_ids"] == [0]
  assert build(None) == _fields([0] * 3, [0] * 3, [0] * 3, 0, real=0)


def test_scores(tokenizer, tmp_path):
  build = TextRecordBuilder(tokenizer, 3, ())
  path = str(tmp_path / "x.tf_record")
  schema = classification_examples.record_schema(3, ())
  assert schema == features.classification(3, dtype="float32")
  examples = [TextExample("x", "a", None, "3.75"), TextExample("y", "b"), None]
  features.write_records(path, schema, examples, lambda: build)
  [batch] = tf.data.TFRecordDataset(path).batch(9).map(records.parser(schema))
  assert batch["label_ids"].numpy().tolist() == [3.75, 0, 0]
  assert batch["is_real_example"].numpy().tolist() == [1, 1, 0]


def test_several_processes_write_and_count_the_same(
  tokenizer, tmp_path, monkeypatch
):
  monkeypatch.setattr(features, "_CHUNK", 7)
  examples = [
    TextExample(str(i), "a " * (i % 9), "b", "yes") for i in range(40)
  ]
  prepare = functools.partial(TextRecordBuilder, tokenizer, 8, ("no", "yes"))
  schema = classification_examples.record_schema(8, ("no", "yes"))
  paths = [tmp_path / "one", tmp_path / "two"]
  for processes, path in enumerate(paths, 1):
    lengths = features.write_records(
      str(path), schema, examples, prepare, processes
    )
    # Of texts before they are cut to eight tokens.
    assert lengths == Counter(4 + i % 9 for i in range(40))
  assert paths[0].read_bytes() == paths[1].read_bytes()
  assert len(list(tf.data.TFRecordDataset(str(paths[0])))) == 40


def test_an_error_in_a_process_leaves_no_file(tokenizer, tmp_path, monkeypatch):
  monkeypatch.setattr(features, "_CHUNK", 2)
  prepare = functools.partial(TextRecordBuilder, tokenizer, 8, ("no", "yes"))
  examples = [TextExample("x", "a", None, "no")] * 4 + [
    TextExample("x", "a", None, "maybe")
  ]
  with pytest.raises(KeyError, match="maybe"):
    features.write_records(
      str(tmp_path / "out"),
      classification_examples.record_schema(8, ("no", "yes")),
      examples,
      prepare,
      processes=2,
    )
  assert not (tmp_path / "out").exists()
