"""Texts or text pairs to labels or scores in the graph.

Legend: B texts, T tokens, L labels.
"""

from collections.abc import Sequence

import tensorflow as tf

from data import features, vocab
from data.tokenization_ops import GraphTokenizer
from serving import length_batching, packing_ops
from storage.tfrecord import Schema

_TEXT = tf.TensorSpec([None], tf.string)


class TextClassification(tf.Module):
  """Serving task (serving.export.Task) of run_classifier.py.

  Texts are truncated to T tokens as in training. `labels` are in the order of
  the logits; None for regression. `pairs` is True for text pairs.

  Raises:
    ValueError: the vocabulary lacks a special token.
  """

  def __init__(
    self,
    tokenizer: GraphTokenizer,
    seq_length: int,
    labels: Sequence[str] | None,
    pairs: bool,
  ):
    super().__init__(name="classification")
    self.texts = (
      {"text_a": _TEXT, "text_b": _TEXT} if pairs else {"text": _TEXT}
    )
    self.schema = Schema(*features.tokens(seq_length))
    self._tokenizer = tokenizer
    self._seq_length = seq_length
    self._labels = labels
    vocab.check_tokens(tokenizer.vocab, (vocab.CLS, vocab.SEP))
    self._cls = tokenizer.vocab[vocab.CLS]
    self._sep = tokenizer.vocab[vocab.SEP]

  def from_text(self, model, **texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Predictions for texts, [B] string each; see `from_features`."""
    first, *second = (self._tokenizer.tokenize(text) for text in texts.values())
    return self.from_features(model, **self._pack(first, *second))

  def _pack(self, first, second=None):
    limit = self._seq_length - 2
    if second is None:
      first = packing_ops.truncate(first, limit)
      return packing_ops.join(first, None, self._cls, self._sep)
    # A second text without tokens gets no [SEP]; one that is truncated to
    # nothing gets it, as in training.
    has_second = tf.cast(second.row_lengths() > 0, tf.int64)
    first, second = packing_ops.truncate_pair(first, second, limit - has_second)
    return packing_ops.join(first, second, self._cls, self._sep, has_second)

  def from_features(self, model, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Predictions for encoded texts, by a model with `logits` [B, L].

    Returns:
      `label` [B], `probabilities` [B, L] and `labels` [B, L], the names of
      the L labels; or `score` [B].
    """
    size = 1 if self._labels is None else len(self._labels)
    logits = length_batching.row_logits(model, inputs, size)
    if self._labels is None:
      return {"score": logits[:, 0]}
    names = tf.constant(self._labels)
    batch = tf.shape(logits)[0]
    return {
      "label": tf.gather(names, tf.argmax(logits, axis=-1)),
      "probabilities": tf.nn.softmax(logits),
      "labels": tf.tile(names[None], [batch, 1]),
    }
