"""Predicts the tokens that [MASK] hides, and whether a second text comes next.

Legend: T tokens, M masks, V vocabulary ids, K predicted tokens for a mask.
"""

import numpy as np

from data.features import RowEncoder
from serving import answers
from serving.answers import Encoded, TextConfig, Texts, softmax, to_list


class _Encoder(RowEncoder):
  """Encodes texts; "[MASK]" in a text becomes the mask token."""

  def token_ids(self, text):
    tokenizer = self.tokenizer
    ids, *parts = map(super().token_ids, text.split(tokenizer.special.mask))
    for part in parts:
      ids += [tokenizer.mask, *part]
    return ids


class Answers(answers.Answers):
  """Implements serving.answers.Answers for models of run_pretraining.py.

  Texts are truncated to T tokens. `mask` is the id of [MASK], `vocab_ids` are
  all ids of the vocabulary. Raises ValueError if a special token is missing.
  """

  task = "pretraining"
  outputs = ("masked_lm_logits",)
  optional = frozenset(["text_pair"])

  def __init__(self, config: TextConfig, top_k: int = 5):
    self.config = config
    self.settings = {"top_k": top_k}
    self.inputs = {"text": 0, "text_pair": 0}
    config.tokenizer.check()
    words = config.tokenizer.vocab
    self.mask = config.tokenizer.mask
    # The model may have more ids than the vocabulary has tokens.
    self.vocab_ids = np.unique([i for token, i in words.items() if token])
    self.top_k = min(top_k, len(self.vocab_ids))
    self._encoder = _Encoder(config.tokenizer, config.max_seq_length)

  def encode(self, texts: Texts) -> Encoded:
    pair = texts.get("text_pair")
    ids, segments, _ = self._encoder.encode(texts["text"], pair, bool(pair))
    masks = [i for i, token in enumerate(ids) if token == self.mask]
    # The model needs at least one position, also for a text without [MASK].
    row = answers.row(ids, segments, masked_lm_positions=masks or [0])
    return Encoded([row], (len(masks), bool(pair)))

  def _best(self, row):
    """Indices of the least numbers. Sorting all takes longer than a model."""
    last = np.partition(row, self.top_k - 1)[self.top_k - 1]
    few = np.flatnonzero(~(row > last))  # with NaN
    return few[np.argsort(row[few], kind="stable")][: self.top_k]

  def decode(self, encoded: Encoded, outputs: list[dict]) -> dict:
    """Returns `tokens` and `probabilities`, [M, K] each, and `num_masks`.

    A pair adds `is_next` and `is_next_probability`, which are None if the model
    has no head for next sentences, or no finite logits.
    """
    [output], (num_masks, is_pair) = outputs, encoded.context
    logits = output["masked_lm_logits"][:num_masks, self.vocab_ids]
    best = np.array([*map(self._best, -logits)], int).reshape(-1, self.top_k)
    probs = np.take_along_axis(softmax(logits), best, -1)
    to_tokens = self.config.tokenizer.convert_ids_to_tokens
    result = {
      "num_masks": num_masks,
      "probabilities": to_list(probs),
      "tokens": [to_tokens(self.vocab_ids[row].tolist()) for row in best],
    }
    if is_pair:
      probability = None
      if (logits := output.get("next_sentence_logits")) is not None:
        probability = to_list(softmax(logits))[0]  # IsNext is class 0
      result["is_next"] = None if probability is None else probability >= 0.5
      result["is_next_probability"] = probability
    return result
