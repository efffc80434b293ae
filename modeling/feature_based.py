"""The feature-based approach: BERT is not trained, only what stands on it.

Layers of a frozen BERT go into two bidirectional LSTM layers, and their output
into a classifier of every token (section 5.3 and table 7 of the paper).

Legend: B batch, T tokens, H hidden, N layers, L labels.
"""

from dataclasses import replace

import keras
from keras import ops

from modeling.basics import initializer
from modeling.bilstm import BiLstm
from modeling.config import BertConfig
from modeling.models import TOKENS, named_inputs, network

# What the features are, in the order of the paper's table.
CHOICES = (
  "embeddings",
  "second_to_last",
  "last",
  "weighted_sum_last_four",
  "concat_last_four",
  "weighted_sum_all",
)
_FEWEST_LAYERS = {
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
  """A tag for every token, from features: tokens -> `logits` [B, T, L].

  Args:
    config: sizes of BERT.
    num_tags: L.
    choice: of layers, one of CHOICES.
    units: of an LSTM, in each direction.
    use_one_hot_embeddings: look tokens up by a matrix product (TPU).
    any_device: make no use of cuDNN, so that what is saved on a machine with a
      GPU runs on others, too.

  Raises:
    ValueError: BERT has too few layers for the choice.
  """
  inputs = named_inputs(*TOKENS)
  # Without dropout: the features of a text are the same every time. The rates
  # say so, since Keras tells all layers of a model alike that it is trained.
  encode = network(
    replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
    use_one_hot_embeddings,
  )
  encode.trainable = False
  hidden = features(encode(**inputs), choice)
  lstm = BiLstm(units, use_cudnn=False if any_device else "auto")
  hidden = lstm(hidden, inputs["input_mask"])
  logits = keras.layers.Dense(
    num_tags, kernel_initializer=initializer(config), name="tags"
  )(hidden)
  return keras.Model(inputs, {"logits": ops.cast(logits, "float32")})


def features(bert: dict, choice: str):
  """The features of tokens.

  Args:
    bert: what modeling.bert.Bert returns.
    choice: of layers, one of CHOICES.

  Returns:
    [B, T, H]; [B, T, 4H] where four layers are concatenated.

  Raises:
    ValueError: BERT has too few layers for the choice.
  """
  outputs = bert["encoder_layers"]
  needed = _FEWEST_LAYERS.get(choice, 1)
  if len(outputs) < needed:
    raise ValueError(
      f"the features {choice!r} take {needed} layers, but bert_config.json has "
      f"num_hidden_layers {len(outputs)}"
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
  raise ValueError(f"{choice!r} is none of {', '.join(CHOICES)}")


@keras.saving.register_keras_serializable("bert")
class WeightedSum(keras.layers.Layer):
  """A mean of layers with trained weights, which are a softmax.

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
    return sum(weights[i] * hidden for i, hidden in enumerate(inputs))
