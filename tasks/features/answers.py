"""Turns texts into vectors: T tokens, L layers, hidden size H."""

from data.features import RowEncoder
from serving import answers
from serving.answers import Encoded, TextConfig, Texts, to_list
from tasks.features.lines import split


class Answers(answers.Answers):
  """Implements serving.answers.Answers for models of extract_features.py.

  A text's vector is the vector of [CLS] if `pooling` is "cls", otherwise the
  mean over all tokens. With `pairs`, a text may be a line of two texts
  (tasks.features.lines).
  """

  task = "features"
  outputs = ("values",)

  def __init__(self, config: TextConfig, pooling: str, pairs: bool = True):
    self.config = config
    pooling = "cls" if pooling == "cls" else "mean"
    self.settings = {"pooling": pooling, "pairs": pairs}
    self.inputs = {"text": 0}
    self._encoder = RowEncoder(config.tokenizer, config.max_seq_length)

  def encode(self, texts: Texts) -> Encoded:
    text = texts["text"]
    line = split(text) if self.settings["pairs"] else (text,)
    row = self._encoder.encode(*line)
    return Encoded([answers.row(row.ids, row.segments)])

  def decode(self, encoded: Encoded, outputs: list[dict]) -> dict:
    """Returns `sentence` [L, H], `token_vectors` [T, L, H] and their `tokens`.

    If the model pools the tokens or reads windows, its values are [L, H], and
    the answer has only `sentence`.
    """
    [values] = (output["values"] for output in outputs)
    if values.ndim == 2:
      return {"sentence": to_list(values)}
    ids = encoded.rows[0]["input_ids"].tolist()
    is_cls = self.settings["pooling"] == "cls"
    return {
      "num_tokens": len(ids),
      "sentence": to_list(values[0] if is_cls else values.mean(0)),
      "token_vectors": to_list(values),
      "tokens": self.config.tokenizer.convert_ids_to_tokens(ids),
    }
