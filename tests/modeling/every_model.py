"""Small models of every kind, for any Keras backend."""

from dataclasses import replace

import numpy as np

from modeling import models
from tests import small_model

SEED = (1, 2)  # for dropout
CONFIG = small_model.UNEVEN
LEFT_TO_RIGHT = replace(CONFIG, attention="left_to_right")
RIGHT_TO_LEFT = replace(CONFIG, attention="right_to_left")
SHALLOW = replace(CONFIG, attention="shallow")
BILSTM = replace(CONFIG, add_bilstm=True)
ONE_HOT = replace(CONFIG, use_one_hot_embeddings=True)
MODELS = {
  "encoder": lambda: models.encoder(CONFIG),
  "encoder with structured attention": lambda: models.encoder(
    replace(CONFIG, initial_attention="structured", num_attention_heads=2)
  ),
  "encoder of one-hot vectors": lambda: models.encoder(ONE_HOT),
  "pretrainer": lambda: models.pretrainer(CONFIG),
  "left to right": lambda: models.classifier(LEFT_TO_RIGHT, 3),
  "right to left": lambda: models.pretrainer(RIGHT_TO_LEFT, False),
  "classifier": lambda: models.classifier(CONFIG, 3),
  "with a BiLSTM": lambda: models.classifier(BILSTM, 3),
  "shallow": lambda: models.tagger(SHALLOW, 3),
  "span labeler": lambda: models.span_labeler(CONFIG),
  "tagger": lambda: models.tagger(CONFIG, 5),
  "packed": lambda: models.packed(models.pretrainer(CONFIG)),
  "multiple choice": lambda: models.multiple_choice(CONFIG),
  "tagger of features": lambda: models.feature_based_tagger(
    CONFIG, 5, "weighted_sum_all", 6
  ),
}


def tokens(batch: int = 2, length: int = 8, seed: int = 0) -> dict:
  """Returns the inputs of texts without padding, each [B, T]."""
  rng = np.random.RandomState(seed)
  return {
    "input_ids": rng.randint(0, 31, (batch, length)).astype(np.int32),
    "input_mask": np.ones((batch, length), np.int32),
    "segment_ids": rng.randint(0, 2, (batch, length)).astype(np.int32),
  }


def with_another_token(batch: dict, index) -> dict:
  """Returns the batch with changed token ids at an index."""
  ids = batch["input_ids"].copy()
  ids[index] = (ids[index] + 1) % 31
  return batch | {"input_ids": ids}


def assert_close(result: dict, expected: dict, **bounds) -> None:
  """Checks that every expected output exists and is close."""
  for name, value in expected.items():
    np.testing.assert_allclose(result[name], value, **bounds, err_msg=name)


def pretraining_batch() -> dict:
  """Returns texts with masked tokens and both next-sentence labels."""
  return tokens() | {
    "masked_lm_positions": np.array([[1, 2, 0], [3, 4, 7]], np.int32),
    "masked_lm_ids": np.array([[4, 9, 0], [30, 2, 1]], np.int32),
    "masked_lm_weights": np.array([[1, 1, 0], [1, 1, 1]], np.float32),
    "next_sentence_labels": np.array([[0], [1]], np.int32),
  }


def inputs(model) -> dict[str, np.ndarray]:
  """Returns two random examples of 8 tokens and 2 tokens of padding."""
  rng = np.random.RandomState(0)
  batch = {}
  for name, tensor in model.input.items():
    shape = [2, 3, 10][-len(tensor.shape) :]
    shape[0] = 2
    high = {"input_ids": 31, "masked_lm_positions": 10}.get(name, 2)
    batch[name] = rng.randint(0, high, shape).astype(np.int32)
  batch["input_mask"][...] = np.arange(10) < 8
  return batch


def outputs(model, batch=None) -> dict[str, np.ndarray]:
  """Returns a model's outputs for `inputs` or another batch."""
  result = dict(model(inputs(model) if batch is None else batch))
  result.pop("encoder_layers", None)
  return {name: np.asarray(value) for name, value in result.items()}
