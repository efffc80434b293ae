from dataclasses import asdict, replace

import numpy as np
import pytest
import tensorflow as tf

from modeling import fused_ops, models
from modeling.config import BertConfig
from modeling.tracing import dropout_seeds
from tests.modeling.every_model import CONFIG, inputs

HIDDEN, ATTENTION, RANGE = 0.2, 0.4, 0.05
UNUSUAL = replace(
  CONFIG,
  hidden_dropout_prob=HIDDEN,
  attention_probs_dropout_prob=ATTENTION,
  initializer_range=RANGE,
)


def test_bert_config_has_the_defaults_of_the_original():
  assert asdict(BertConfig(7)) == {
    "vocab_size": 7,
    "type_vocab_size": 16,
    "max_position_embeddings": 512,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "initial_attention": "random",
    "attention": "bidirectional",
    "add_bilstm": False,
    "use_one_hot_embeddings": False,
    "fixed_positions": False,
  }


def _encoder(computed, batch=2):
  """Returns (rate, shape, has residual) of each dropout in an encoder.

  The last block computes only `computed` tokens of each text.
  """
  dropouts = [(HIDDEN, (batch, 10, 12), False)]
  for tokens in (10, computed):
    dropouts += [
      (ATTENTION, (batch, 3, tokens, 10), False),
      *[(HIDDEN, (batch, tokens, 12), True)] * 2,
    ]
  return dropouts


# Each model, its other arguments, and its dropouts.
MODELS = [
  (models.pretrainer, [], _encoder(11)),  # ten positions and [CLS]
  (models.classifier, [3], [*_encoder(1), (0.1, (2, 12), False)]),
  (models.span_labeler, [], _encoder(10)),
  (models.tagger, [3], [*_encoder(10), (0.1, (2, 10, 12), False)]),
  (models.multiple_choice, [], [*_encoder(1, 6), (0.1, (6, 12), False)]),
  (models.feature_based_tagger, [3, "last", 4], []),
]


@pytest.mark.parametrize(("make", "sizes", "dropouts"), MODELS)
def test_models_have_the_originals_dropout(make, sizes, dropouts, monkeypatch):
  """Checks the rates of dropout; heads use the original's rate of 0.1."""
  dropped, add_dropped = [], fused_ops._add_dropped

  def record(x, seed, residual, *, rate):
    if seed is not None:
      call = rate, tuple(x.shape), residual is not None
      dropped.append((call, tuple(seed.numpy())))
    return add_dropped(x, seed, residual, rate=rate)

  monkeypatch.setattr(fused_ops, "_add_dropped", record)
  model = make(UNUSUAL, *sizes)
  with dropout_seeds(tf.constant([1, 2])):
    model(inputs(model), training=True)
  assert [call for call, _ in dropped] == dropouts
  assert len({seed for _, seed in dropped}) == len(dropped)
  dropped.clear()
  model(inputs(model), training=False)
  assert not dropped


def test_dropout_does_not_drop_the_residual():
  x, seed = tf.ones([20, 20]), tf.constant([1, 2], tf.uint32)
  values = fused_ops._add_dropped(x, seed, 10.0 * x, rate=0.25)
  np.testing.assert_allclose(np.unique(values), [10, 10 + 4 / 3])


CONSTANTS = dict.fromkeys(("bias", "beta", "output_bias", "scores"), 0.0)
CONSTANTS["gamma"] = 1.0


@pytest.mark.parametrize(("make", "sizes", "_"), MODELS)
def test_initial_values_have_a_truncated_normal_distribution(make, sizes, _):
  """A cut at two deviations leaves 0.88 of one. No two variables are equal."""
  first = []
  for variable in make(UNUSUAL, *sizes).weights:
    values, name = variable.numpy(), variable.path.rsplit("/")[-1]
    if name in CONSTANTS and "bilstm" not in variable.path:
      assert (values == CONSTANTS[name]).all(), variable.path
    elif "bilstm" not in variable.path:
      first.append(values.flat[0])
      assert np.abs(values).max() <= 2 * RANGE + 1e-6, variable.path
      assert values.std() == pytest.approx(0.88 * RANGE, rel=0.4), variable.path
  assert len(set(first)) == len(first) > 10
