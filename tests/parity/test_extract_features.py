import re

import numpy as np
import pytest

from tests import programs
from tests.parity import golden_files

CASES = golden_files.larger_cases("extract_features/output_*.jsonl.gz")


def _tokens(record):
  """Returns all parts of a record except the values of vectors."""
  return record["linex_index"], [
    (feature["token"], [layer["index"] for layer in feature["layers"]])
    for feature in record["features"]
  ]


def _values(record):
  return np.array(
    [[x["values"] for x in token["layers"]] for token in record["features"]]
  )


@pytest.mark.parametrize("case", CASES, ids=golden_files.name)
def test_the_output_equals_the_originals(case, tmp_path):
  encoder = case.parent / "tiny_encoder"
  name = case.name.removesuffix(".jsonl.gz")  # says the flags
  flags = {"max_seq_length": re.search(r"_len(\d+)", name)[1]}
  if layers := re.search(r"_layers((_-?\d+)+)", name):
    flags["layers"] = layers[1].strip("_").replace("_", ",")
  if size := re.search(r"_batch(\d+)", name):
    flags["batch_size"] = size[1]
  if "_cased" in name:
    flags["do_lower_case"] = False
  if "_onehot" in name:
    flags["use_one_hot_embeddings"] = True
  flags |= {
    "input_file": case.parent / "input.txt",
    "output_file": tmp_path / "output.jsonl",
    "vocab_file": case.parents[1] / "vocab.txt",
    "bert_config_file": encoder / "bert_config.json",
    "init_checkpoint": encoder / "bert_model.ckpt",
  }
  programs.run("extract_features", **flags)
  result = golden_files.read_jsonl(tmp_path / "output.jsonl")
  expected = golden_files.read_jsonl(case)
  assert list(map(_tokens, result)) == list(map(_tokens, expected))
  for mine, theirs in zip(result, expected, strict=True):
    assert list(mine) == list(theirs)
    np.testing.assert_allclose(_values(mine), _values(theirs), atol=2e-5)
