"""Answers a text or text pair with labels and probabilities, or a score."""

from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np

from data.features import RowEncoder
from serving import answers
from serving.answers import Encoded, TextConfig, Texts, to_list
from storage import UserError


class Answers(answers.Answers):
  """Implements serving.answers.Answers for models of run_classifier.py.

  A model without labels answers with a score. With `thresholds`, a text gets
  every label whose probability reaches the label's threshold.
  """

  task = "classification"

  def __init__(
    self, config: TextConfig, pairs: bool, thresholds: Sequence[float] = ()
  ):
    self.config = config
    self.settings: dict[str, Any] = {"pairs": pairs}
    if thresholds:
      self.settings["thresholds"] = [*thresholds]
    self.inputs = {"text_a": 0, "text_b": 0} if pairs else {"text": 0}
    self._thresholds = np.array(thresholds, np.float32)
    self._encoder = RowEncoder(config.tokenizer, config.max_seq_length)

  def encode(self, texts: Texts) -> Encoded:
    row = self._encoder.encode(*(texts[name] for name in self.inputs))
    return Encoded([answers.row(row.ids, row.segments)])

  def decode(self, encoded: Encoded, outputs: list[dict]) -> dict:
    """Returns `score`, or else `label`, all `labels` and their `probabilities`.

    With thresholds, `predicted` (labels) and `num_predicted` replace `label`.
    """
    [logits] = (output["logits"] for output in outputs)
    labels = self.config.labels
    expected = 1 if labels is None else len(labels)
    if logits.size != expected:
      raise UserError(
        f"the model has {logits.size} outputs, but labels.txt is for {expected}"
        ": take this file from its export or training"
      )
    if labels is None:
      return {"score": to_list(logits)[0]}
    if self._thresholds.size:
      probs = answers.sigmoid(logits)
      predicted = [*compress(labels, probs >= self._thresholds)]
      answer = {"predicted": predicted, "num_predicted": len(predicted)}
    else:
      probs = answers.softmax(logits)
      answer = {"label": labels[logits.argmax()]}
    return answer | {"labels": [*labels], "probabilities": to_list(probs)}
