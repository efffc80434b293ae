"""Contexts with endings to the most probable ending in the graph.

Legend: B contexts, C choices, T tokens.
"""

import tensorflow as tf

from data import features
from data.tokenization_ops import GraphTokenizer
from serving import packing_ops


class MultipleChoice(packing_ops.PackedTexts):
  """Serving task (serving.export.Task) of run_swag.py, for any C.

  Choices are truncated to T tokens as in training.
  """

  def __init__(self, tokenizer: GraphTokenizer, seq_length: int):
    texts = {
      "sent1": tf.TensorSpec([None], tf.string),
      "sent2": tf.TensorSpec([None], tf.string),
      "choices": tf.TensorSpec([None, None], tf.string),
    }
    super().__init__(tokenizer, seq_length, texts)
    self.schema = features.multiple_choice(seq_length, 1)

  def from_text(
    self, model, sent1: tf.Tensor, sent2: tf.Tensor, choices: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    """Chooses endings.

    Args:
      model: maps a dict of inputs to `logits` [B, C].
      sent1: [B] string, the contexts.
      sent2: [B] string, beginnings of the next sentences; may be empty.
      choices: [B, C] string, the endings.

    Returns:
      `choice` [B] int32, number of the ending; `text` [B], the ending;
      `probabilities` [B, C].
    """
    batch, number = tf.unstack(tf.shape(choices))
    starts, ends = tf.repeat(sent2, number), tf.reshape(choices, [-1])
    text_b = tf.strings.join([starts, ends], " ")
    rows = self._pack(tf.repeat(sent1, number), text_b, keep_empty=True)
    shape = [batch, number, tf.shape(rows["input_ids"])[1]]
    inputs = {name: tf.reshape(value, shape) for name, value in rows.items()}
    answers = self.from_features(model, **inputs)
    text = tf.gather(choices, answers["choice"], batch_dims=1)
    return answers | {"text": text}

  def from_features(self, model, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Chooses endings of records, [B, C, T] int32 each.

    Choices whose mask is all 0 are padding and never chosen.

    Returns:
      `choice` and `probabilities`, as `from_text`.
    """
    logits = model(inputs, training=False)["logits"]
    is_choice = tf.reduce_any(inputs["input_mask"] > 0, axis=-1)
    logits = tf.where(is_choice, logits, logits.dtype.min)
    return {
      "choice": tf.argmax(logits, axis=-1, output_type=tf.int32),
      "probabilities": tf.nn.softmax(logits),
    }
