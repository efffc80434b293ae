"""Contexts with endings to the most probable ending, by a LiteRT model."""

from data.features import TextPacker, pad_inputs
from serving import litert


class Model(litert.TextModel):
  """Outputs as those of tasks/multiple_choice/serving.py."""

  def __init__(self, export: litert.LiteRtExport):
    super().__init__(export)
    self.ranks = {"choices": 1, "sent1": 0, "sent2": 0}
    self._packer = TextPacker(export.tokenizer, export.max_seq_length)

  def answer(self, sent1: str, sent2: str, choices: list[str]) -> dict:
    """Number and text of an ending, and the probabilities of all."""
    rows = [
      self._packer.pack(sent1, f"{sent2} {ending}", keep_empty=True)
      for ending in choices
    ]
    length = max(len(ids) for ids, _ in rows)
    inputs = [pad_inputs(*row, length) for row in rows]
    logits = self.export.run(
      **{name: [row[name] for row in inputs] for name in inputs[0]}
    )["logits"]
    best = int(logits.argmax())
    return {
      "choice": best,
      "probabilities": litert.softmax(logits),
      "text": choices[best],
    }
