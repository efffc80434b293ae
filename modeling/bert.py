"""BERT: embeddings, encoder and pooler under the name `bert`.

Legend: B batch, T tokens, P positions, H hidden, V vocabulary.
"""

import keras
from keras import ops

from modeling import layers
from modeling.basics import Configured, gather_positions
from modeling.bilstm import BiLstm
from modeling.config import BertConfig


@keras.saving.register_keras_serializable("bert")
class Bert(Configured):
  """The network that all tasks share (`BertModel` of the original).

  Arguments:
    config: sizes, a BertConfig or a dict of its values.
    use_one_hot_embeddings: look tokens up by a matrix product (TPU).

  Call arguments:
    input_ids: [B, T] int.
    input_mask: [B, T] int, 1 for tokens and 0 for padding. All ones when left
      out.
    segment_ids: [B, T] int. All zeros when left out.
    positions: [B, P] int, the only tokens whose `sequence_output` is wanted.
      Then the last block computes no other but the pooled one, unless a BiLSTM
      on top reads all.

  Returns:
    A dict: `embedding_output` [B, T, H]; `encoder_layers`, [B, T, H]
    of each block, but not of the last where `positions` are given;
    `sequence_output`, [B, T, H] or [B, P, H], the last layer, or what a BiLSTM
    on top makes of it; `pooled_output` [B, H]; `embedding_table` [V, H], for
    heads that are tied to it.
  """

  def __init__(
    self,
    config: BertConfig | dict,
    use_one_hot_embeddings: bool = False,
    name: str = "bert",
    **kwargs,
  ):
    super().__init__(config, name=name, **kwargs)
    config = self.config
    self.use_one_hot_embeddings = use_one_hot_embeddings
    self.embeddings = layers.Embeddings(
      config, use_one_hot_embeddings, name="embeddings"
    )
    self.encoder = layers.Encoder(config, name="encoder")
    self.bilstm = None
    if config.add_bilstm:
      # Without cuDNN, so that what is saved beside a GPU runs on others, too.
      self.bilstm = BiLstm(config.hidden_size // 2, depth=1, use_cudnn=False)
    self.pooler = layers.Pooler(config, name="pooler")

  def build(self, input_shape, *_):
    hidden = (*input_shape, self.config.hidden_size)
    self.embeddings.build(input_shape)
    self.encoder.build(hidden)
    if self.bilstm:
      self.bilstm.build(hidden)
    self.pooler.build(hidden)

  def call(
    self,
    input_ids,
    input_mask=None,
    segment_ids=None,
    positions=None,
    training=None,
  ):
    if input_mask is None:
      input_mask = ops.ones_like(input_ids)
    if segment_ids is None:
      segment_ids = ops.zeros_like(input_ids)
    visible = visible_keys(input_mask, self.config.attention)

    hidden, table = self.embeddings(input_ids, segment_ids, training=training)
    places = pooled_place(input_mask, self.config.attention)
    if positions is not None:
      places = ops.concatenate([places, positions], axis=1)
    whole = positions is None or self.bilstm is not None  # which reads all
    *lower, top = self.encoder(
      hidden, visible, None if whole else places, training=training
    )
    sequence = top
    if self.bilstm:
      sequence = self.bilstm(sequence, input_mask, training=training)
    chosen = gather_positions(sequence, places) if whole else sequence
    return {
      "embedding_output": hidden,
      "encoder_layers": [*lower, top] if positions is None else lower,
      "sequence_output": sequence if positions is None else chosen[:, 1:],
      "pooled_output": self.pooler(chosen[:, 0]),
      "embedding_table": table,
    }

  def leave_pooler(self) -> None:
    """Does not train the pooler, for models that do not look at it."""
    self.pooler.trainable = False

  def get_config(self):
    return super().get_config() | {
      "use_one_hot_embeddings": self.use_one_hot_embeddings,
    }


def visible_keys(input_mask, attention: str):
  """Where each token looks.

  Args:
    input_mask: [B, T] int, 1 for tokens and 0 for padding.
    attention: one of config.ATTENTION.

  Returns:
    [B, 1 or T, T] int, 1 where the query may look at the key.
  """
  real = ops.expand_dims(input_mask, 1)  # [B, 1, T]
  if attention == "both":
    return real
  places = ops.arange(ops.shape(input_mask)[1])
  query, key = ops.expand_dims(places, 1), ops.expand_dims(places, 0)
  past = query >= key if attention == "left_to_right" else query <= key
  return ops.expand_dims(ops.cast(past, real.dtype), 0) * real


def pooled_place(input_mask, attention: str):
  """Where the token stands whose vector is pooled: [B, T] -> [B, 1] int.

  That is the first, [CLS]; left to right the last that is no padding, since no
  other has seen the whole sequence. Arguments as `visible_keys` has them.
  """
  if attention != "left_to_right":
    return ops.zeros_like(input_mask[:, :1])
  places = ops.arange(ops.shape(input_mask)[1], dtype=input_mask.dtype)
  return ops.max(places * input_mask, axis=1, keepdims=True)
