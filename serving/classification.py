"""One or two texts to a label or a score, as run_classifier.py has it.

Legend: B texts, T tokens, L labels.
"""

from collections.abc import Sequence

import tensorflow as tf

from data import features, vocab
from data.tokenization_ops import GraphTokenizer
from serving import packing_ops, portions

_TEXT = tf.TensorSpec([None], tf.string)


class Classification(tf.Module):
  """What a SavedModel of a classifier does.

  Arguments:
    tokenizer: text to ids.
    seq_length: most tokens of a row; longer texts are shortened as in training.
    labels: L names, in the order of the model's; None if it gives a score.
    pairs: whether there are two texts.

  Attributes:
    texts: what `from_text` takes, by name.
    schema: of the records that `from_features` takes.
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
    self.schema = features.Schema(*features.tokens(seq_length))
    self._tokenizer = tokenizer
    self._seq_length = seq_length
    self._labels = labels
    vocab.require(tokenizer.vocab, (vocab.CLS, vocab.SEP))
    self._cls = tokenizer.vocab[vocab.CLS]
    self._sep = tokenizer.vocab[vocab.SEP]

  def from_text(self, model, **texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Answers for texts, [B] string each; see `from_features`."""
    first, *second = (self._tokenizer.tokenize(text) for text in texts.values())
    return self.from_features(model, **self._pack(first, *second))

  def _pack(self, first, second=None):
    limit = self._seq_length - 2
    if second is None:
      first = packing_ops.truncate(first, limit)
      return packing_ops.join(first, None, self._cls, self._sep)
    # A second text without a token is none, and gets no [SEP]; one that is cut
    # away gets it, as in training.
    has_second = tf.cast(second.row_lengths() > 0, tf.int64)
    first, second = packing_ops.truncate_pair(first, second, limit - has_second)
    return packing_ops.join(first, second, self._cls, self._sep, has_second)

  def from_features(self, model, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Answers for records.

    Args:
      model: from a dict of inputs to `logits` [B, L].
      inputs: `input_ids`, `input_mask`, `segment_ids`, [B, T] int32 each.

    Returns:
      `label` [B], `probabilities` [B, L] and `labels` [B, L], their names; or
      `score` [B].
    """
    size = 1 if self._labels is None else len(self._labels)
    logits = portions.of_rows(model, inputs, size)
    if self._labels is None:
      return {"score": logits[:, 0]}
    names = tf.constant(self._labels)
    batch = tf.shape(logits)[0]
    return {
      "label": tf.gather(names, tf.argmax(logits, axis=-1)),
      "probabilities": tf.nn.softmax(logits),
      "labels": tf.tile(names[None], [batch, 1]),
    }
