"""Texts to ratings."""

from data import features
from serving import answers
from serving.answers import Encoded, to_list


class Answers(answers.Answers):
  """Answers (serving.answers.Answers) of run_rating.py."""

  task = "rating"

  def __init__(self, config):
    self.config, self.settings = config, {}
    self.inputs = {"text": 0}
    self._encoder = features.RowEncoder(config.tokenizer, config.max_seq_length)

  def encode(self, texts):
    return Encoded([answers.row(*self._encoder.encode(texts["text"]))])

  def decode(self, encoded, outputs):
    """`rating`, a number."""
    [rating] = (output["rating"] for output in outputs)
    return {"rating": to_list(rating)}
