"""Texts or text pairs to labels or scores in the graph.

Legend: B texts, T tokens, L labels.
"""

from collections.abc import Sequence

import tensorflow as tf

from data.tokenization_ops import GraphTokenizer
from serving import packing_ops


class TextClassification(packing_ops.PackedTexts):
  """Serving task (serving.export.Task) of run_classifier.py.

  Texts are truncated to T tokens as in training. `labels` are in the order of
  the logits; None for regression. `pairs` is True for text pairs. With
  `thresholds` texts have any number of labels, those whose probability reaches
  the label's threshold.
  """

  def __init__(
    self,
    tokenizer: GraphTokenizer,
    seq_length: int,
    labels: Sequence[str] | None,
    pairs: bool,
    thresholds: Sequence[float] = (),
  ):
    names = ("text_a", "text_b") if pairs else ("text",)
    texts = {name: tf.TensorSpec([None], tf.string) for name in names}
    super().__init__(tokenizer, seq_length, texts)
    self._labels = labels
    self._thresholds = thresholds

  @property
  def settings(self) -> dict:
    """See serving.export.Task."""
    settings = {"pairs": len(self.texts) == 2, "max_length": self._seq_length}
    if self._thresholds:
      settings["thresholds"] = self._thresholds
    return settings

  def from_text(self, model, **texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Predictions for texts, [B] string each; see `from_features`."""
    return self.from_features(model, **self._pack(*texts.values()))

  def from_features(self, model, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Predictions for encoded texts, by a model with `logits` [B, L].

    Returns:
      `label` [B], `probabilities` [B, L] and `labels` [B, L], the names of
      the L labels; or `score` [B]. With several labels a text, `predicted` [B,
      up to L], padded with "", and `num_predicted` [B] instead of `label`.
    """
    size = 1 if self._labels is None else len(self._labels)
    logits = packing_ops.row_logits(model, inputs, size)
    if self._labels is None:
      return {"score": logits[:, 0]}
    names = tf.constant(self._labels)
    labels = tf.tile(names[None], [tf.shape(logits)[0], 1])
    if self._thresholds:
      return self._several(tf.sigmoid(logits), labels)
    return {
      "label": tf.gather(names, tf.argmax(logits, axis=-1)),
      "probabilities": tf.nn.softmax(logits),
      "labels": labels,
    }

  def _several(self, probabilities, labels):
    is_predicted = probabilities >= tf.constant(self._thresholds, tf.float32)
    predicted = tf.ragged.boolean_mask(labels, is_predicted)
    return {
      "predicted": predicted.to_tensor(),
      "num_predicted": tf.cast(predicted.row_lengths(), tf.int32),
      "probabilities": probabilities,
      "labels": labels,
    }
