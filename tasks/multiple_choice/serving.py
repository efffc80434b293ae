"""Contexts with endings to the most probable ending in the graph.

Legend: B contexts, C choices, T tokens.
"""

import tensorflow as tf

from data import features, vocab
from data.tokenization_ops import GraphTokenizer
from serving import packing_ops


class MultipleChoice(tf.Module):
  """Serving task (serving.export.Task) of run_swag.py, for any C.

  Choices are truncated to T tokens as in training.

  Raises:
    ValueError: the vocabulary lacks a special token.
  """

  def __init__(self, tokenizer: GraphTokenizer, seq_length: int):
    super().__init__(name="choices")
    vocab.check_tokens(tokenizer.vocab, (vocab.CLS, vocab.SEP))
    self.texts = {
      "sent1": tf.TensorSpec([None], tf.string),
      "sent2": tf.TensorSpec([None], tf.string),
      "choices": tf.TensorSpec([None, None], tf.string),
    }
    self.schema = features.multiple_choice(seq_length, 1)
    self._tokenizer = tokenizer
    self._limit = seq_length - 3
    self._cls = tokenizer.vocab[vocab.CLS]
    self._sep = tokenizer.vocab[vocab.SEP]

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
    inputs = self._pack(sent1, sent2, choices)
    answers = self.from_features(model, **inputs)
    text = tf.gather(choices, answers["choice"], batch_dims=1)
    return answers | {"text": text}

  def _pack(self, sent1, sent2, choices):
    batch, number = tf.unstack(tf.shape(choices))
    first = self._tokenizer.tokenize(sent1)  # [B, (T)]
    first = tf.gather(first, tf.repeat(tf.range(batch), number))  # [B * C, (T)]
    starts, ends = tf.repeat(sent2, number), tf.reshape(choices, [-1])
    second = self._tokenizer.tokenize(tf.strings.join([starts, ends], " "))
    pair = packing_ops.truncate_pair(first, second, self._limit)
    # A second text without tokens gets its [SEP], too, as in training.
    has_second = tf.ones([batch * number], tf.int64)
    flat = packing_ops.join(*pair, self._cls, self._sep, has_second)
    shape = [batch, number, tf.shape(flat["input_ids"])[1]]
    return {name: tf.reshape(value, shape) for name, value in flat.items()}

  def from_features(self, model, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """`choice` and `probabilities` of `from_text`, for records [B, C, T].

    Choices whose mask is all 0 are padding and never chosen.
    """
    logits = model(inputs, training=False)["logits"]
    is_choice = tf.reduce_any(inputs["input_mask"] > 0, axis=-1)
    logits = tf.where(is_choice, logits, logits.dtype.min)
    return {
      "choice": tf.argmax(logits, axis=-1, output_type=tf.int32),
      "probabilities": tf.nn.softmax(logits),
    }
