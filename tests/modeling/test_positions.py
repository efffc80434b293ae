"""The last block computes only some positions."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from modeling import models
from modeling.config import ATTENTION
from tests.modeling.every_model import CONFIG, tokens

CONFIGS = {kind: replace(CONFIG, attention=kind) for kind in ATTENTION}
CONFIGS["with a BiLSTM"] = replace(CONFIG, add_bilstm=True)
POSITIONS = np.array([[5, 1, 5], [0, 7, 2]], np.int32)  # [B, P]


def _batch():
  batch = tokens()
  batch["input_mask"][0, 6:] = 0
  return batch


def _outputs(bert, positions):
  """Returns outputs, the vectors at POSITIONS, and gradients by path."""
  with tf.GradientTape() as tape:
    outputs = bert(**_batch(), positions=positions)
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
def test_outputs_do_not_depend_on_the_number_of_positions(kind):
  bert = models.make_encoder(CONFIGS[kind])
  complete, expected_sequence, expected = _outputs(bert, None)
  few, result, gradients = _outputs(bert, POSITIONS)
  np.testing.assert_allclose(result, expected_sequence, atol=1e-5)
  pooled, expected_pooled = few["pooled_output"], complete["pooled_output"]
  np.testing.assert_allclose(pooled, expected_pooled, atol=1e-5)
  assert len(few["encoder_layers"]) == len(complete["encoder_layers"]) - 1
  for path, value in expected.items():
    bound = 1e-5 * (1.0 + np.abs(value).max())  # key biases have about 0
    np.testing.assert_allclose(gradients[path], value, 0, bound, err_msg=path)


def test_last_block_computes_no_other_token():
  bert = models.make_encoder(CONFIG)
  hidden_states = bert(**_batch())["embedding_output"]
  mask = _batch()["input_mask"][:, None]
  first, last = bert.encoder(hidden_states, mask, POSITIONS)
  assert first.shape == (2, 8, 12)
  assert last.shape == (2, 3, 12)
