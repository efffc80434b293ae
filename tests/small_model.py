"""The three tiny models that tests use, with files and inputs."""

import numpy as np

from data import vocab
from modeling.config import BertConfig


def config(vocab_size, **changes):
  """Configures the model that learns: one layer of width 16, no dropout."""
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


def narrow(vocab_size, **changes):
  """Configures the narrow model: one layer of width 8, for one or two steps."""
  sizes = {"hidden_size": 8, "intermediate_size": 12, "type_vocab_size": 2}
  sizes |= {"max_position_embeddings": 12, "initializer_range": 0.2}
  return config(vocab_size, **sizes | changes)


# The uneven model has two layers with dropout. Its sizes differ, so that no
# two axes can be confused.
UNEVEN = BertConfig(
  vocab_size=31,
  hidden_size=12,
  num_hidden_layers=2,
  num_attention_heads=3,
  intermediate_size=20,
  type_vocab_size=2,
  max_position_embeddings=16,
  initializer_range=0.3,
)


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
