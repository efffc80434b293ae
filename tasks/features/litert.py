"""Texts to vectors of tokens and of texts, by a LiteRT model."""

from data.features import TextPacker
from serving import litert
from tasks.features.lines import split


class Model(litert.TextModel):
  """Outputs as those of tasks/features/serving.py."""

  def __init__(self, export: litert.LiteRtExport):
    super().__init__(export)
    self.ranks = {"text": 0}
    self._packer = TextPacker(export.tokenizer, export.max_seq_length)

  def answer(self, text: str) -> dict:
    """Vectors [L, H] of the text and [T, L, H] of its tokens."""
    ids, segments = self._packer.pack(*split(text))
    values = self.export.run_row(ids, segments)["values"]
    is_cls = self.export.settings["pooling"] == "cls"
    return {
      "num_tokens": len(ids),
      "sentence": (values[0] if is_cls else values.mean(0)).tolist(),
      "token_vectors": values.tolist(),
      "tokens": self.export.tokenizer.convert_ids_to_tokens(ids),
    }
