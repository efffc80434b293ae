"""The feature-based approach: a BiLSTM tagger on a frozen BERT.

Source: section 5.3 and table 7 of the paper.

Legend: B batch, T tokens, H hidden, N layers, L labels.
"""

from dataclasses import replace

import keras
from keras import ops

from modeling.bilstm import BiLstm
from modeling.config import FEATURE_LAYERS, BertConfig
from modeling.core_layers import initializer
from modeling.models import ENCODER_INPUTS, make_encoder, named_inputs

_MIN_LAYERS = {
  "second_to_last": 2,
  "weighted_sum_last_four": 4,
  "concat_last_four": 4,
}


def tagger(
  config: BertConfig,
  num_tags: int,
  choice: str,
  units: int = 768,
  use_one_hot_embeddings: bool = False,
  any_device: bool = False,
) -> keras.Model:
  """Makes a tagger of features: tokens -> `logits` [B, T, L].

  Args:
    config: of BERT.
    num_tags: L.
    choice: one of FEATURE_LAYERS.
    units: of an LSTM per direction.
    use_one_hot_embeddings: look tokens up by a matrix product (TPU).
    any_device: without cuDNN, for exports made on a GPU that run elsewhere.

  Raises:
    ValueError: BERT has too few layers for the choice.
  """
  inputs = named_inputs(*ENCODER_INPUTS)
  # Features have no dropout. Rates of 0, since a functional Keras model passes
  # its own `training` to every layer.
  encode = make_encoder(
    replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
    use_one_hot_embeddings,
  )
  encode.trainable = False
  hidden_states = features(encode(**inputs), choice)
  lstm = BiLstm(units, use_cudnn=False if any_device else "auto")
  hidden_states = lstm(hidden_states, inputs["input_mask"])
  logits = keras.layers.Dense(
    num_tags, kernel_initializer=initializer(config), name="tags"
  )(hidden_states)
  return keras.Model(inputs, {"logits": ops.cast(logits, "float32")})


def features(bert: dict, choice: str):
  """Selects or combines the layers of an encoder.

  Args:
    bert: outputs of modeling.bert.Bert.
    choice: one of FEATURE_LAYERS.

  Returns:
    [B, T, H], or [B, T, 4H] for "concat_last_four".

  Raises:
    ValueError: BERT has too few layers for the choice.
  """
  outputs = bert["encoder_layers"]
  minimum = _MIN_LAYERS.get(choice, 1)
  if len(outputs) < minimum:
    raise ValueError(
      f"the features {choice!r} take {minimum} layers, but bert_config.json "
      f"has num_hidden_layers {len(outputs)}"
    )
  match choice:
    case "embeddings":
      return bert["embedding_output"]
    case "second_to_last":
      return outputs[-2]
    case "last":
      return outputs[-1]
    case "weighted_sum_last_four":
      return WeightedSum()(outputs[-4:])
    case "concat_last_four":
      return ops.concatenate(outputs[-4:], axis=-1)
    case "weighted_sum_all":
      return WeightedSum()(outputs)
  raise ValueError(f"{choice!r} is none of {', '.join(FEATURE_LAYERS)}")


@keras.saving.register_keras_serializable("bert")
class WeightedSum(keras.layers.Layer):
  """Mean of layers, weighted by a softmax of trained scores.

  Call arguments:
    inputs: N tensors [B, T, H].

  Returns:
    [B, T, H].
  """

  def __init__(self, name: str = "weighted_sum", **kwargs):
    super().__init__(name=name, **kwargs)

  def build(self, input_shape):
    self.scores = self.add_weight(
      name="scores", shape=(len(input_shape),), initializer="zeros"
    )

  def call(self, inputs):
    weights = ops.softmax(self.scores)
    return sum(
      weights[i] * hidden_states for i, hidden_states in enumerate(inputs)
    )
