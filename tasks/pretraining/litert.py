"""Texts with [MASK] to the most probable tokens, by a LiteRT model."""

import numpy as np

from data import vocab
from data.features import pack
from data.tokenization import CachedTokenizer
from serving import litert


class Model(litert.TextModel):
  """Outputs as those of tasks/pretraining/serving.py."""

  def __init__(self, export: litert.LiteRtExport):
    super().__init__(export)
    self.ranks = {"text": 0}
    self._ids = CachedTokenizer(export.tokenizer).ids
    self._vocab = export.tokenizer.vocab
    self._vocab_ids = np.unique([*self._vocab.values()])

  def answer(self, text: str) -> dict:
    """Tokens and probabilities, [M, K] each, and the number of masks."""
    mask = self._vocab[vocab.MASK]
    ids = []
    for number, part in enumerate(text.split(vocab.MASK)):
      ids += [mask] * (number > 0) + self._ids(part)
    del ids[self.export.max_seq_length - 2 :]
    ends = self._vocab[vocab.CLS], self._vocab[vocab.SEP]
    ids, segments = pack(ids, None, *ends)
    positions = [i for i, token in enumerate(ids) if token == mask]
    if not positions:
      return {"num_masks": 0, "probabilities": [], "tokens": []}
    logits = self.export.run_row(ids, segments, masked_lm_positions=positions)[
      "masked_lm_logits"
    ][:, self._vocab_ids]
    probs = np.array(litert.softmax(logits))
    top_k = self.export.settings["top_k"]
    best = np.argsort(-logits, axis=-1, kind="stable")[:, :top_k]
    to_tokens = self.export.tokenizer.convert_ids_to_tokens
    return {
      "num_masks": len(positions),
      "probabilities": np.take_along_axis(probs, best, -1).tolist(),
      "tokens": [to_tokens(self._vocab_ids[row].tolist()) for row in best],
    }
