import gzip
import re

import pytest
import tensorflow as tf

from data import features
from data.tokenization import FullTokenizer
from data.write_records import write_records
from tasks.classification import examples as classification_examples
from tasks.classification import named_tasks
from tests.parity import golden_files

CASES = golden_files.cases("classifier/features_*.jsonl.gz")


@pytest.fixture(name="case", params=CASES, ids=golden_files.name)
def _case(request):
  path = request.param
  task, split, length, casing = re.fullmatch(
    r"features_(.+)_(train|dev|test)_len(\d+)_(lower|cased)\.jsonl\.gz",
    path.name,
  ).groups()
  task = named_tasks.find(task)
  examples = classification_examples.read_examples(
    task, str(path.parent / task.name), split
  )
  golden = golden_files.read_jsonl(path)
  # On TPUs the original pads the last batch.
  examples = examples + [None] * sum(row["guid"] is None for row in golden)
  tokenizer = FullTokenizer(path.parents[1] / "vocab.txt", casing == "lower")
  build = classification_examples.TextRecordBuilder(
    tokenizer, int(length), task.labels
  )
  records = path.with_name(path.name.replace(".jsonl.gz", ".tf_record.gz"))
  return task, examples, build, golden, records


def test_examples_equal_the_originals(case):
  task, examples, _, golden, _ = case
  assert len(examples) == len(golden)
  for example, row in zip(examples, golden, strict=True):
    if example is None:
      continue
    assert example.guid == row["guid"]
    assert (example.text_a, example.text_b) == (row["text_a"], row["text_b"])
    # The original gives the first label to a row without a label.
    assert (example.label or task.labels[0]) == row["label"]


def test_records_equal_the_originals(case, tmp_path):
  _, examples, build, golden, records = case
  schema = features.classification(len(golden[0]["input_ids"]))
  path = tmp_path / "ours.tf_record"
  write_records(str(path), schema, examples, lambda: build)
  (tmp_path / "theirs").write_bytes(gzip.decompress(records.read_bytes()))
  mine, theirs = (
    [golden_files.parse(record.numpy()) for record in dataset]
    for dataset in map(tf.data.TFRecordDataset, (path, tmp_path / "theirs"))
  )
  assert mine == theirs
