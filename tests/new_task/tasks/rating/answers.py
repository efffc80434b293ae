"""Encodes texts as rows, and decodes ratings from outputs."""

from data.features import RowEncoder
from serving import answers
from serving.answers import Encoded, to_list


class Answers(answers.Answers):
  """Answers of run_rating.py (see serving.answers.Answers)."""

  task = "rating"

  def __init__(self, config):
    self.config, self.settings = config, {}
    self.inputs = {"text": 0}
    self._encoder = RowEncoder(config.tokenizer, config.max_seq_length)

  def encode(self, texts):
    row = self._encoder.encode(texts["text"])
    return Encoded([answers.row(row.ids, row.segments)])

  def decode(self, encoded, outputs):
    """Returns `rating`, a number."""
    [rating] = (output["rating"] for output in outputs)
    return {"rating": to_list(rating)}
