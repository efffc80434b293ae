import dataclasses
import hashlib
import json

import tensorflow as tf

from data.features import Masking
from data.pretraining import instances
from data.pretraining.instances import BuildConfig
from data.tokenization import FullTokenizer
from storage import files
from tests.parity import golden_files

RENAMED = {"do_whole_word_mask": "whole_word"}


@golden_files.each("pretraining_data/*/summary.json", "summary")
def test_records_equal_the_originals(summary, tmp_path):
  case = json.loads(summary.read_text())
  flags = dict(case["flags"])
  lower = flags.pop("do_lower_case", True)
  seed = flags.pop("random_seed", 12345)
  flags = {RENAMED.get(name, name): value for name, value in flags.items()}
  names = {field.name for field in dataclasses.fields(Masking)} & flags.keys()
  masking = Masking(**{name: flags.pop(name) for name in names})
  settings = instances.InstanceConfig(masking=masking, **flags)
  names = ",".join(str(summary.parents[1] / n) for n in case["input_files"])
  outputs = [str(tmp_path / name) for name in case["output_files"]]
  tokenizer = FullTokenizer(summary.parents[2] / "vocab.txt", lower)
  config = BuildConfig(tokenizer, settings, seed)
  instances.write_in_memory(config, files.expand(names), outputs)
  for output, expected in zip(outputs, case["files"], strict=True):
    golden = _records(str(summary.parent / expected["file"]), "GZIP")
    result = _records(output)
    assert len(result) == len(golden) == expected["records"]
    for record, golden_record in zip(result, golden, strict=True):
      assert record == golden_record
    lines = (f"{json.dumps(x, separators=(',', ':'))}\n" for x in result)
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    assert digest == expected["decoded_sha256"]


def _records(path, compression=None):
  dataset = tf.data.TFRecordDataset(path, compression)
  records = (golden_files.parse(record.numpy()) for record in dataset)
  return [dict(sorted(record.items())) for record in records]
