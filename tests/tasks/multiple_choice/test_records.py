"""Records of multiple choice by hand."""

import tensorflow as tf

from data import features, records
from storage import tfrecord
from tasks.multiple_choice.examples import ChoiceExample, ChoiceRecordBuilder


def test_every_choice_is_a_pair(tokenizer, tmp_path):
  build = ChoiceRecordBuilder(tokenizer, 8)
  row, lengths = build(ChoiceExample("a b c", "b", ("d", "e d e e"), 1))
  tfrecord.save(str(tmp_path / "r"), features.multiple_choice(8, 2), [row])
  parse = records.parser(features.multiple_choice(8, 2))
  [batch] = tf.data.TFRecordDataset(str(tmp_path / "r")).batch(1).map(parse)
  batch = {name: value.numpy().tolist() for name, value in batch.items()}
  assert batch["input_ids"][0] == [
    [2, 5, 6, 7, 3, 6, 8, 3],  # [CLS] a b c [SEP] b d [SEP]
    [2, 5, 6, 7, 3, 6, 9, 3],  # [CLS] a b c [SEP] b e [SEP]: cut to fit
  ]
  assert lengths == [8, 11]
  assert batch["segment_ids"][0] == [[0] * 5 + [1] * 3] * 2
  assert batch["input_mask"][0] == [[1] * 8] * 2
  assert batch["label_ids"] == batch["is_real_example"] == [1]
