"""Records equal the original's, one by one and in its order."""

import dataclasses
import gzip
import hashlib
import json

import pytest
import tensorflow as tf

from data.pretraining import builders, instances
from data.pretraining.builders import BuildConfig
from data.pretraining.instances import Masking
from storage import files
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
  flags = {RENAMED.get(name, name): value for name, value in flags.items()}
  names = {field.name for field in dataclasses.fields(Masking)} & flags.keys()
  masking = Masking(**{name: flags.pop(name) for name in names})
  settings = instances.InstanceConfig(masking=masking, **flags)
  names = ",".join(str(summary.parents[1] / n) for n in case["input_files"])
  outputs = [str(tmp_path / name) for name in case["output_files"]]
  config = BuildConfig(str(_vocab(summary)), lower, settings, seed)

  builders.write_in_memory(config, files.expand(names), outputs)

  for output, expected in zip(outputs, case["files"], strict=True):
    with gzip.open(summary.parent / expected["file"]) as file:
      golden = _decode(file.read(), tmp_path / "golden")
    with open(output, "rb") as file:
      result = _decode(file.read(), tmp_path / "result")
    assert len(result) == len(golden) == expected["records"]
    for record, golden_record in zip(result, golden, strict=True):
      assert record == golden_record
    assert _digest(result) == expected["decoded_sha256"]


def _vocab(summary):
  """The vocabulary of a set of cases."""
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
