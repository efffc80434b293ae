"""Answers texts with words' tags and entities: W words, T tokens, L tags."""

import numpy as np

from serving import answers
from serving.answers import Encoded, TextConfig, Texts, softmax, to_list
from tasks.ner import words
from tasks.ner.examples import BLANK, Sentence
from tasks.ner.records import TagRecordBuilder
from tasks.ner.schemes import recognize


class Answers(answers.Answers):
  """Answers (serving.answers.Answers) of run_ner.py.

  A text is split into words as words.split does; a list has the words. A text
  of more than T tokens is split into windows with context from the text alone.
  """

  task = "ner"
  word_lists = frozenset(["tokens"])

  def __init__(self, config: TextConfig):
    self.config = config
    self.settings = {}
    self.inputs = {"tokens": 0}
    self._builder = TagRecordBuilder(
      config.tokenizer, config.max_seq_length, config.labels or ()
    )
    self._scheme = recognize(config.labels or ())

  def encode(self, texts: Texts) -> Encoded:
    text, spans = words.split(texts["tokens"])
    # Files of characters have BLANK for a blank.
    named = [text[start:end].strip() or BLANK for start, end in spans]
    sentences = [Sentence(named, None)] if named else []
    rows, windows = [], []
    for ids, _, window in self._builder.windows(sentences):
      rows.append(answers.row(ids, [0] * len(ids)))
      windows.append(window)
    return Encoded(rows, (text, spans, windows))

  def decode(self, encoded: Encoded, outputs: list[dict]) -> dict:
    """Words with tags, positions and `probabilities` [W, L]; entities."""
    text, spans, windows = encoded.context
    labels = self.config.labels or ()
    logits = [np.zeros([0, len(labels)], np.float32)]  # of an empty text
    for output, window in zip(outputs, windows, strict=True):
      logits.append(output["logits"][window.positions])
    logits = np.concatenate(logits)
    probs = softmax(logits)
    tags = [labels[i] for i in logits.argmax(-1)]
    entities = []
    # Tags of single words, such as parts of speech, are no entities.
    phrases = self._scheme.entities(tags) if self._scheme.name else ()
    for label, first, last in phrases:
      start, end = spans[first][0], spans[last - 1][1]
      entity = {"label": label, "text": text[start:end], "start": start}
      probability = probs[first:last].max(-1).min()  # of the least certain word
      entity |= {"end": end, "probability": to_list(probability)}
      entities.append(entity)
    return {
      "end": [end for _, end in spans],
      "entities": entities,
      "labels": [*labels],
      "num_words": len(spans),
      "probabilities": to_list(probs),
      "start": [start for start, _ in spans],
      "tags": tags,
      "words": [text[start:end] for start, end in spans],
    }
