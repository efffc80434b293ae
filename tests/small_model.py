"""Configuration and files of a model small enough to train in a test."""

import numpy as np

from data import vocab
from modeling.config import BertConfig
from training import checkpoint


def config(vocab_size, **changes):
  """Configures one layer of width 16 without dropout, plus `changes`."""
  fields = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "initializer_range": 0.1,
    "max_position_embeddings": 16,
  }
  return BertConfig(vocab_size, **fields | changes)


def write(folder, tokens, **changes):
  """Writes bert_config.json and vocab.txt; returns both as flags."""
  config(len(tokens), **changes).to_json(str(folder / "bert_config.json"))
  vocab.save(tokens, folder / "vocab.txt")
  return {
    "bert_config_file": folder / "bert_config.json",
    "vocab_file": folder / "vocab.txt",
  }


def batch(vocab_size, length, seed=0):
  """Makes inputs of a pre-training model: two rows, the second with padding."""
  rng = np.random.RandomState(seed)
  mask = np.ones((2, length), np.int32)
  mask[1, -4:] = 0
  return {
    "input_ids": rng.randint(0, vocab_size, (2, length)).astype(np.int32),
    "input_mask": mask,
    "segment_ids": rng.randint(0, 2, (2, length)).astype(np.int32),
    "masked_lm_positions": rng.randint(0, length, (2, 3)).astype(np.int32),
  }


def assert_same_checkpoint(result, expected, ignored=(), atol=0.0):
  """Compares the variables of two checkpoints, or of two folders.

  Variables whose names end with one of `ignored` may differ.
  """
  result = checkpoint.open_reader(str(result))
  expected = checkpoint.open_reader(str(expected))
  assert result.shapes == expected.shapes
  for name in expected.shapes:
    if not name.endswith(ignored):
      np.testing.assert_allclose(
        result[name], expected[name], rtol=0, atol=atol, err_msg=name
      )
