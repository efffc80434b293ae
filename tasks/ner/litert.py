"""Sentences to tags of their words, by a LiteRT model."""

import re

import numpy as np

from serving import litert
from tasks.ner.examples import Sentence
from tasks.ner.records import TagRecordBuilder, first_piece_values


class Model(litert.TextModel):
  """Outputs as those of tasks/ner/serving.py."""

  def __init__(self, export: litert.LiteRtExport):
    super().__init__(export)
    self.ranks = {"tokens": 0}
    self._build = TagRecordBuilder(
      export.tokenizer, export.max_seq_length, export.labels
    )

  def answer(self, tokens: str) -> dict:
    """Words, [W], with their tags, probabilities [W, L] and positions."""
    spans = list(re.finditer(r"[^ \t\r\n]+", tokens))
    words = [span[0] for span in spans]
    logits = np.zeros([0, len(self.export.labels)], np.float32)
    if words:
      parts = [
        first_piece_values(self._logits(row)[None], [window])
        for row, window in self._build([Sentence(words, None)])
      ]
      logits = np.concatenate(parts)
    return {
      "end": [span.end() for span in spans],
      "labels": self.export.labels,
      "num_words": len(words),
      "probabilities": litert.softmax(logits) if words else [],
      "start": [span.start() for span in spans],
      "tags": [self.export.labels[i] for i in logits.argmax(-1)],
      "words": words,
    }

  def _logits(self, row):
    length = sum(row["input_mask"])
    return self.export.run_row(
      row["input_ids"][:length], row["segment_ids"][:length]
    )["logits"]
