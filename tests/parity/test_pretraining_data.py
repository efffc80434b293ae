"""Records equal the original's, one by one and in its order."""

import gzip
import hashlib
import json

import pytest
import tensorflow as tf

from data import files
from data.pretraining import instances, whole
from data.pretraining.parts import Job
from tests.parity import golden_files

CASES = golden_files.cases("pretraining_data/*/summary.json")
RENAMED = {"do_whole_word_mask": "whole_word"}


@pytest.mark.parametrize("summary", CASES, ids=golden_files.name)
def test_records_equal_the_originals(summary, tmp_path):
  case = json.loads(summary.read_text())
  flags = dict(case["flags"])
  lower, seed = (
    flags.pop("do_lower_case", True),
    flags.pop("random_seed", 12345),
  )
  settings = instances.Settings(
    **{RENAMED.get(name, name): value for name, value in flags.items()}
  )
  names = ",".join(str(summary.parents[1] / n) for n in case["input_files"])
  outputs = [str(tmp_path / name) for name in case["output_files"]]
  job = Job(str(_vocab(summary)), lower, settings, seed)

  whole.write(job, files.expand(names), outputs)

  for output, expected in zip(outputs, case["files"], strict=True):
    with gzip.open(summary.parent / expected["file"]) as file:
      theirs = _decode(file.read(), tmp_path / "theirs")
    with open(output, "rb") as file:
      ours = _decode(file.read(), tmp_path / "ours")
    assert len(ours) == len(theirs) == expected["records"]
    for mine, golden in zip(ours, theirs, strict=True):
      assert mine == golden
    assert _digest(ours) == expected["decoded_sha256"]


def _vocab(summary):
  """The vocabulary of a case: the one of its set."""
  return summary.parents[2] / "vocab.txt"


def _decode(content, path):
  path.write_bytes(content)
  records = []
  for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
    features = tf.train.Example.FromString(record).features.feature
    records.append(
      {
        name: list(
          feature.float_list.value
          if name == "masked_lm_weights"
          else feature.int64_list.value
        )
        for name, feature in features.items()
      }
    )
  return records


def _digest(records):
  lines = (
    json.dumps(record, sort_keys=True, separators=(",", ":")) + "\n"
    for record in records
  )
  return hashlib.sha256("".join(lines).encode()).hexdigest()
