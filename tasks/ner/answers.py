"""Sentences to tags of their words: W words, T tokens, L tags."""

import re

import numpy as np

from serving import answers
from serving.answers import Encoded, TextConfig, Texts, softmax, to_list
from tasks.ner.examples import Sentence
from tasks.ner.records import TagRecordBuilder

_WORD = re.compile(r"[^ \t\r\n]+")


class Answers(answers.Answers):
  """Answers (serving.answers.Answers) of run_ner.py.

  Words are separated by blanks (U+0020), tabs and line breaks. A sentence of
  more than T tokens is split into windows with context from the sentence alone.
  """

  task = "ner"

  def __init__(self, config: TextConfig):
    self.config = config
    self.settings = {}
    self.inputs = {"tokens": 0}
    self._builder = TagRecordBuilder(
      config.tokenizer, config.max_seq_length, config.labels or ()
    )

  def encode(self, texts: Texts) -> Encoded:
    words = list(_WORD.finditer(texts["tokens"]))
    sentences = [Sentence([word[0] for word in words], None)] if words else []
    rows, windows = [], []
    for ids, _, window in self._builder.windows(sentences):
      rows.append(answers.row(ids, [0] * len(ids)))
      windows.append(window)
    return Encoded(rows, (words, windows))

  def decode(self, encoded: Encoded, outputs: list[dict]) -> dict:
    """Words with their tags, positions and `probabilities` [W, L]."""
    words, windows = encoded.context
    tags = self.config.labels or ()
    logits = [np.zeros([0, len(tags)], np.float32)]  # of an empty sentence
    for output, window in zip(outputs, windows, strict=True):
      logits.append(output["logits"][window.positions])
    logits = np.concatenate(logits)
    return {
      "end": [word.end() for word in words],
      "labels": [*tags],
      "num_words": len(words),
      "probabilities": to_list(softmax(logits)),
      "start": [word.start() for word in words],
      "tags": [tags[i] for i in logits.argmax(-1)],
      "words": [word[0] for word in words],
    }
