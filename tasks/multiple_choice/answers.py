"""Contexts with endings to the most probable ending.

Legend: T tokens of the longest choice, C choices.
"""

import numpy as np

from data import features
from serving import answers
from serving.answers import Encoded, TextConfig, Texts, softmax, to_list


class Answers(answers.Answers):
  """Answers (serving.answers.Answers) of run_swag.py, for any C."""

  task = "multiple_choice"

  def __init__(self, config: TextConfig):
    self.config, self.settings = config, {}
    self.inputs = {"sent1": 0, "sent2": 0, "choices": 1}
    self._encoder = features.RowEncoder(config.tokenizer, config.max_seq_length)

  def encode(self, texts: Texts) -> Encoded:
    """One row of choices, [C, T]."""
    start = texts["sent2"]
    choices = [
      self._encoder.encode(texts["sent1"], f"{start} {ending}", keep_empty=True)
      for ending in texts["choices"]
    ]
    length = max(len(ids) for ids, _ in choices)
    inputs = [features.pad_inputs(*choice, length) for choice in choices]
    row = {
      name: np.array([choice[name] for choice in inputs], np.int32)
      for name in features.TOKENS
    }
    return Encoded([row], texts["choices"])

  def decode(self, encoded: Encoded, outputs: list[dict]) -> dict:
    """`choice`, number of the ending, its `text`, `probabilities` of all."""
    [logits] = (output["logits"] for output in outputs)
    best = int(logits.argmax())
    return {
      "choice": best,
      "probabilities": to_list(softmax(logits)),
      "text": encoded.context[best],
    }
