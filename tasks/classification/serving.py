"""Texts or text pairs to labels or scores in the graph.

Legend: B texts, T tokens, L labels.
"""

from collections.abc import Sequence

import tensorflow as tf

from data.tokenization_ops import GraphTokenizer
from serving import length_batching, packing_ops


class TextClassification(packing_ops.PackedTexts):
  """Serving task (serving.export.Task) of run_classifier.py.

  Texts are truncated to T tokens as in training. `labels` are in the order of
  the logits; None for regression. `pairs` is True for text pairs.
  """

  def __init__(
    self,
    tokenizer: GraphTokenizer,
    seq_length: int,
    labels: Sequence[str] | None,
    pairs: bool,
  ):
    names = ("text_a", "text_b") if pairs else ("text",)
    texts = {name: tf.TensorSpec([None], tf.string) for name in names}
    super().__init__(tokenizer, seq_length, texts)
    self._labels = labels

  @property
  def settings(self) -> dict:
    """See serving.export.Task."""
    return {"pairs": len(self.texts) == 2}

  def from_text(self, model, **texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Predictions for texts, [B] string each; see `from_features`."""
    return self.from_features(model, **self._pack(*texts.values()))

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
