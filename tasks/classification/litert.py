"""Texts or text pairs to labels or scores, by a LiteRT model."""

from itertools import compress

import numpy as np

from data.features import TextPacker
from serving import litert


class Model(litert.TextModel):
  """Outputs as those of tasks/classification/serving.py."""

  def __init__(self, export: litert.LiteRtExport):
    super().__init__(export)
    pairs = export.settings["pairs"]
    self.ranks = dict.fromkeys(("text_a", "text_b") if pairs else ("text",), 0)
    self._packer = TextPacker(export.tokenizer, export.max_seq_length)

  def answer(self, **texts: str) -> dict:
    """The label or labels with the probabilities of all, or a score."""
    row = self._packer.pack(*(texts[name] for name in self.ranks))
    logits = self.export.run_row(*row)["logits"]
    labels = self.export.labels
    if labels is None:
      return {"score": float(logits[0])}
    if thresholds := self.export.settings.get("thresholds"):
      probabilities = 1.0 / (1.0 + np.exp(-logits))
      is_predicted = probabilities >= np.array(thresholds, np.float32)
      predicted = list(compress(labels, is_predicted))
      return {
        "predicted": predicted,
        "num_predicted": len(predicted),
        "labels": labels,
        "probabilities": probabilities.tolist(),
      }
    return {
      "label": labels[logits.argmax()],
      "labels": labels,
      "probabilities": litert.softmax(logits),
    }
