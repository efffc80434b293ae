import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import fused_ops, models
from modeling.bert import Embeddings
from modeling.tracing import dropout_seed, dropout_seeds
from tests.modeling.every_model import CONFIG, tokens


def test_a_sequence_longer_than_the_position_embeddings_is_refused():
  bert = models.encoder(CONFIG).get_layer("bert")
  with pytest.raises(ValueError, match=r"17 exceeds .* 16"):
    bert(tokens(length=17)["input_ids"])


def test_a_pooler_is_trained_only_if_a_head_reads_it():
  for model, is_read in (
    (models.classifier(CONFIG, 3), True),
    (models.tagger(CONFIG, 3), False),
    (models.pretrainer(CONFIG), True),
    (models.pretrainer(CONFIG, next_sentence=False), False),
  ):
    paths = [v.path for v in model.trainable_variables]
    assert any("pooler" in path for path in paths) == is_read
    # The output matrix is the embedding table.
    tables = [v.path for v in model.variables if v.shape == (31, 12)]
    assert tables == ["bert/embeddings/word_embeddings"]
  assert not any("seq_relationship" in path for path in paths)


def test_logits_of_masked_words_keep_the_smaller_type_only_in_training():
  keras.config.set_dtype_policy("mixed_bfloat16")
  head = models.pretrainer(CONFIG).layers[-1]
  inputs = tf.zeros([2, 3, 12]), tf.zeros([2, 12]), tf.zeros([31, 12])
  for training, dtype in ((True, tf.bfloat16), (False, tf.float32)):
    assert head(*inputs, training=training)["masked_lm_logits"].dtype == dtype


def test_gradients_of_a_repeated_token_are_summed_in_float32():
  keras.config.set_dtype_policy("mixed_bfloat16")
  embeddings = Embeddings(CONFIG)

  def gradient(number):
    ids = tf.ones([number, 1], tf.int32)
    with tf.GradientTape() as tape:
      vectors, table = embeddings(ids, ids)
      # The head of masked words reads the table, too.
      loss = tf.reduce_sum(vectors[..., 0]) + 0 * tf.reduce_sum(table)
    return tape.gradient(loss, embeddings.word_embeddings.value)

  np.testing.assert_allclose(gradient(500), 500 * gradient(1), rtol=1e-5)


def test_the_score_of_a_choice_does_not_depend_on_other_choices():
  model, flat = models.multiple_choice(CONFIG), tokens(batch=8)
  batch = {k: v.reshape(2, 4, 8) for k, v in flat.items()}
  result = model(batch)["logits"].numpy()
  pooled = model.get_layer("bert")(**flat)["pooled_output"]  # [B * C, H]
  [vector] = model.get_layer("cls").trainable_variables
  expected = (pooled.numpy() @ vector.numpy()).reshape(2, 4)
  np.testing.assert_allclose(result, expected, atol=1e-5)
  for choices in ([2], [3, 0], [1, 2, 3, 0, 1, 1]):  # any number
    some = model({k: v[:, choices] for k, v in batch.items()})["logits"]
    np.testing.assert_allclose(some, result[:, choices], atol=1e-5)


def test_dropout_depends_on_the_seed_and_on_the_index_of_the_call():
  ones = tf.ones([100, 100])

  def dropout(training=True):
    return fused_ops.dropout(ones, rate=0.25, training=training)

  def draw(*seed):
    with dropout_seeds(tf.constant(seed, tf.int32)):
      return dropout(), dropout()

  def seeds(first):
    with dropout_seeds(tf.constant([1, 2]), first):
      return [tuple(dropout_seed(0.1, True).numpy()) for _ in range(100)]

  first, second = draw(1, 2)
  np.testing.assert_array_equal(first, draw(1, 2)[0])
  assert np.any(first != second)  # two layers in one step
  assert np.any(first != draw(1, 3)[0])  # two steps
  assert np.any(first != draw(2, 2)[0])  # two replicas
  # The number of the first dropout is a tensor if a loop of the graph counts.
  assert len({*seeds(0)}) == 100
  assert seeds(0) == seeds(tf.constant(0))
  assert np.mean(first == 0) == pytest.approx(0.25, abs=0.02)
  assert np.max(first) == pytest.approx(1 / 0.75)
  np.testing.assert_array_equal(dropout(training=False), ones)
  # Without dropout_seeds, as in Keras' fit, each call draws other values.
  assert np.any(dropout() != dropout())


def test_an_ensemble_returns_the_mean_of_its_members_probabilities():
  parts = [models.classifier(CONFIG, 3) for _ in range(3)]
  model = models.ensemble(parts, models.mean_probs)
  assert models.members(model) == parts
  names = [variable.path for variable in parts[0].variables]
  assert [variable.path for variable in parts[2].variables] == names
  *alone, together = (
    tf.nn.softmax(one(tokens())["logits"]).numpy() for one in (*parts, model)
  )
  np.testing.assert_allclose(together, np.mean(alone, axis=0), rtol=1e-5)
  assert np.abs(alone[0] - alone[1]).max() > 1e-3
  assert models.ensemble(parts[:1], models.mean_probs) is parts[0]


def test_mean_odds_gives_the_mean_probability_of_each_label():
  values = [tf.constant([[0.0, 3.0]]), tf.constant([[2.0, -30.0]])]
  result = tf.sigmoid(models.mean_odds(values))
  expected = np.mean([tf.sigmoid(value) for value in values], axis=0)
  np.testing.assert_allclose(result, expected, rtol=1e-5)
