"""Schemas of all records, as in the original; masking settings; token rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from data.vocab import Tokenizer
from storage import UserError
from storage.textfiles import SURROGATE
from storage.tfrecord import Feature, Schema

TOKENS = ("input_ids", "input_mask", "segment_ids")
_IS_REAL = Feature("is_real_example", ())


def tokens(seq_length: int) -> list[Feature]:
  """The three inputs of the encoder, [T] each."""
  return [Feature(name, (seq_length,)) for name in TOKENS]


def pretraining(seq_length: int, max_predictions: int = 0) -> Schema:
  """A masked sentence pair (create_pretraining_data.py of the original).

  With 0 predictions the pair has no masks; training masks it (dynamic masking).
  """
  masks = (
    Feature("masked_lm_positions", (max_predictions,)),
    Feature("masked_lm_ids", (max_predictions,)),
    Feature("masked_lm_weights", (max_predictions,), "float32"),
  )
  fields = *tokens(seq_length), *(masks if max_predictions else ())
  return Schema(*fields, Feature("next_sentence_labels", (1,)))


def classification(
  seq_length: int, shape: tuple[int, ...] = (), dtype: str = "int64"
) -> Schema:
  """One or two texts and a class index (run_classifier.py of the original).

  `shape` (L,) is for L labels, each 0 or 1; `dtype` float32 is for a score.
  """
  label_ids = Feature("label_ids", shape, dtype)
  return Schema(*tokens(seq_length), label_ids, _IS_REAL)


def tagging(seq_length: int) -> Schema:
  """A tagged sentence; label_ids is -1 at positions without a tag."""
  return Schema(*tokens(seq_length), Feature("label_ids", (seq_length,)))


def multiple_choice(seq_length: int, choices: int) -> Schema:
  """C texts and the index of the correct choice."""
  inputs = [Feature(name, (choices, seq_length)) for name in TOKENS]
  return Schema(*inputs, Feature("label_ids", ()), _IS_REAL)


def squad(seq_length: int, is_training: bool) -> Schema:
  """A question, a window of the paragraph and, for training, the answer."""
  span = ("start_positions", "end_positions", "is_impossible")
  labels = [Feature(name, ()) for name in span if is_training]
  return Schema(Feature("unique_ids", ()), *tokens(seq_length), *labels)


@dataclass(frozen=True)
class Masking:
  """Settings that choose and replace the masked tokens of a record."""

  max_predictions_per_seq: int = 20  # P
  masked_lm_prob: float = 0.15
  whole_word: bool = False
  # Probabilities of the replacements: table 8 of the paper.
  mask_token_prob: float = 0.8
  random_token_prob: float = 0.1

  def __post_init__(self):
    probs = (self.mask_token_prob, self.random_token_prob)
    if not (min(probs) >= 0.0 and sum(probs) <= 1.0 + 1e-9):
      raise UserError(
        f"mask_token_prob {self.mask_token_prob:g} and random_token_prob "
        f"{self.random_token_prob:g} must be 0 or more, their sum 1 at most"
      )


def join(
  first: Sequence[int], second: Sequence[int] | None, cls: int, sep: int
) -> tuple[list[int], list[int]]:
  """Joins texts to [CLS] first [SEP] second [SEP], or to [CLS] first [SEP].

  Returns ids and segments.
  """
  ids = [cls, *first, sep]
  segments = [0] * len(ids)
  if second is not None:
    ids += second
    ids.append(sep)
    segments += [1] * (len(second) + 1)
  return ids, segments


def pad(values: Sequence[float], length: int, padding: int = 0) -> list:
  """Appends padding up to a length."""
  return [*values, *[padding] * (length - len(values))]


def pad_inputs(
  ids: Sequence[int], segments: Sequence[int], seq_length: int, padding: int = 0
) -> dict[str, list[int]]:
  """The three inputs of the encoder, [T] each; `padding` pads the ids."""
  return {
    "input_ids": pad(ids, seq_length, padding),
    "input_mask": pad([1] * len(ids), seq_length),
    "segment_ids": pad(segments, seq_length),
  }


class Row(NamedTuple):
  """Ids and segments of a text or text pair, with [CLS] and [SEP]."""

  ids: list[int]
  segments: list[int]
  length: int  # number of tokens before truncation


class RowEncoder:
  """Converts texts to at most T = `seq_length` ids; cuts the longer text first.

  Raises ValueError if the vocabulary lacks a special token.
  """

  def __init__(self, tokenizer: Tokenizer, seq_length: int):
    tokenizer.check("cls", "sep", "unknown")
    self.tokenizer, self.seq_length = tokenizer, seq_length
    self._ids = tokenizer.cached_ids()
    self._ends = tokenizer.cls, tokenizer.sep

  def token_ids(self, text: str) -> list[int]:  # pre-training overrides it
    return self._ids(text)

  def encode(
    self, text_a: str, text_b: str | None = None, keep_empty: bool = False
  ) -> Row:
    """Makes a row. An empty second text gets a [SEP] only with `keep_empty`."""
    first = self.token_ids(text_a)
    second = self.token_ids(text_b or "")
    has_second = bool(second) or keep_empty
    special = 3 if has_second else 2  # [CLS] and [SEP]s
    length = len(first) + len(second) + special
    truncate_pair(first, second, self.seq_length - special)
    ids, segments = join(first, second if has_second else None, *self._ends)
    return Row(ids, segments, length)

  def inputs(self, ids: Sequence[int], segments: Sequence[int]) -> dict:
    return pad_inputs(ids, segments, self.seq_length, self.tokenizer.pad)


def truncate_pair(first: list[int], second: list[int], limit: int) -> None:
  """Truncates two texts in place to `limit` tokens together.

  Until both fit, removes the last token of the longer text, as
  run_classifier.py of the original does. If both are equally long, the second
  text loses the token.
  """
  while len(first) + len(second) > limit:
    longer = first if len(first) > len(second) else second
    longer.pop()


def check_texts(
  name: str, value: Any, rank: int, takes_words: bool = False
) -> Any:
  """Returns a text, or lists of texts `rank` levels deep; bytes become text.

  Raises UserError if `value` is neither. With `takes_words`, a list of words
  may stand for a text.
  """
  if isinstance(value, bytes):
    value = value.decode("utf-8", "replace")
  are_words = takes_words and not rank and not isinstance(value, str)
  rank += are_words
  if not rank and isinstance(value, str) and not SURROGATE.search(value):
    return value
  is_list = rank and hasattr(value, "__iter__")
  is_list &= not isinstance(value, str | Mapping | set | frozenset)
  # Iterating over a data frame would give the names of the columns.
  if not (is_list and 0 < getattr(value, "ndim", rank) <= rank):
    shown = " ".join(repr(value).split())[:40]
    expected = "a list of texts" if rank > are_words else "a text in UTF-8"
    raise UserError(f"{name} is {shown}: give {expected}")
  parts = enumerate(value)
  below = rank - 1, takes_words and not are_words
  texts = [check_texts(f"{name}[{i}]", part, *below) for i, part in parts]
  if rank > 1 and [] in texts:
    raise UserError(f"a list in {name} is empty")
  return texts
