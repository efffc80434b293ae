"""Chooses the best of C endings; the longest choice has T tokens."""

import numpy as np

from serving import answers
from serving.answers import Encoded, TextConfig, Texts, softmax, to_list
from tasks.multiple_choice.examples import ChoiceRecordBuilder


class Answers(answers.Answers):
  """Implements serving.answers.Answers for models of run_swag.py, for any C."""

  task = "multiple_choice"

  def __init__(self, config: TextConfig, is_ensemble: bool = False):
    self.config = config
    self.settings = {"is_ensemble": True} if is_ensemble else {}
    self.inputs = {"sent1": 0, "sent2": 0, "choices": 1}
    self._encoder = ChoiceRecordBuilder(config.tokenizer, config.max_seq_length)

  def encode(self, texts: Texts) -> Encoded:
    """Makes rows, [C, T], for at most 32 choices at a time, to bound memory.

    An ensemble normalizes its logits over a row, so it gets a single row.
    """
    choices = self._encoder.choices(*(texts[name] for name in self.inputs))
    rows = [answers.row(row.ids, row.segments) for row in choices]
    size = len(rows) if self.settings else 32
    parts = (rows[i : i + size] for i in range(0, len(rows), size))
    return Encoded([*map(answers.stack, parts)], texts["choices"])

  def decode(self, encoded: Encoded, outputs: list[dict]) -> dict:
    """Returns the best ending's number, `choice`, and its `text`.

    Also returns the `probabilities` of all endings.
    """
    logits = np.concatenate([output["logits"] for output in outputs])
    best = int(logits.argmax())
    probabilities, text = to_list(softmax(logits)), encoded.context[best]
    return {"choice": best, "probabilities": probabilities, "text": text}
