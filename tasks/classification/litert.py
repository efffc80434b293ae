"""Texts or text pairs to labels or scores, by a LiteRT model."""

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
    """A label with the probabilities of all, or a score."""
    row = self._packer.pack(*(texts[name] for name in self.ranks))
    logits = self.export.run_row(*row)["logits"]
    labels = self.export.labels
    if labels is None:
      return {"score": float(logits[0])}
    return {
      "label": labels[logits.argmax()],
      "labels": labels,
      "probabilities": litert.softmax(logits),
    }
