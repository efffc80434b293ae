"""The last block where only some tokens are wanted of it."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from modeling import models
from tests.modeling.every_model import CONFIG, tokens

CONFIGS = {
  **{
    attention: replace(CONFIG, attention=attention)
    for attention in ("both", "left_to_right", "right_to_left", "shallow")
  },
  "with a BiLSTM": replace(CONFIG, add_bilstm=True),
}
POSITIONS = np.array([[5, 1, 5], [0, 7, 2]], np.int32)  # [B, P]


def _batch():
  batch = tokens()
  batch["input_mask"][0, 6:] = 0
  return batch


def _outputs(bert, positions):
  """What it gives, the vectors at POSITIONS, and gradients by path."""
  given = {} if positions is None else {"positions": positions}
  with tf.GradientTape() as tape:
    outputs = bert(**_batch(), **given)
    sequence = outputs["sequence_output"]
    if positions is None:
      sequence = tf.gather(sequence, POSITIONS, batch_dims=1)
    total = tf.reduce_sum(sequence**3)
    total += tf.reduce_sum(outputs["pooled_output"] ** 3)
  variables = bert.trainable_variables
  gradients = map(tf.convert_to_tensor, tape.gradient(total, variables))
  paths = [variable.path for variable in variables]
  return outputs, sequence, dict(zip(paths, gradients, strict=True))


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_token_is_the_same_where_others_are_not_wanted(kind):
  bert = models.network(CONFIGS[kind])
  whole, wanted, expected = _outputs(bert, None)
  few, found, gradients = _outputs(bert, POSITIONS)
  np.testing.assert_allclose(found, wanted, atol=1e-5)
  np.testing.assert_allclose(
    few["pooled_output"], whole["pooled_output"], atol=1e-5
  )
  assert len(few["encoder_layers"]) == len(whole["encoder_layers"]) - 1
  for path, value in expected.items():
    scale = 1.0 + np.abs(value).max()  # keys' bias has next to none
    np.testing.assert_allclose(
      gradients[path], value, atol=1e-5 * scale, err_msg=path
    )


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_pooled_vector_needs_no_other_token(kind):
  bert = models.network(CONFIGS[kind])
  outputs = bert(**_batch(), positions=np.zeros((2, 0), np.int32))
  np.testing.assert_allclose(
    outputs["pooled_output"], bert(**_batch())["pooled_output"], atol=1e-5
  )
  assert outputs["sequence_output"].shape[1] == 0


def test_the_last_block_computes_no_other_token():
  bert = models.network(CONFIG)
  hidden = bert(**_batch())["embedding_output"]
  mask = _batch()["input_mask"][:, None]
  first, last = bert.encoder(hidden, mask, POSITIONS)
  assert first.shape == (2, 8, 12)
  assert last.shape == (2, 3, 12)
