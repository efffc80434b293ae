"""Checks texts, and converts texts and text pairs to rows of token ids."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from data import features
from data.tokenizer import Tokenizer
from storage import UserError
from storage.textfiles import SURROGATE


class Row(NamedTuple):
  """Ids and segments of a text or text pair, with [CLS] and [SEP]."""

  ids: list[int]
  segments: list[int]
  length: int  # tokens before the texts were truncated


class RowEncoder:
  """Converts texts and text pairs to at most T ids with [CLS] and [SEP].

  Truncates the longer text of a pair first. Raises ValueError if T is too small
  or the vocabulary lacks a special token.
  """

  def __init__(self, tokenizer: Tokenizer, seq_length: int):
    if seq_length < 3:
      raise UserError(
        f"max_seq_length {seq_length} is too short: [CLS], [SEP] and a token "
        "take 3"
      )
    tokenizer.check("cls", "sep", "unknown")
    self.tokenizer, self.seq_length = tokenizer, seq_length
    self._ids, self._ends = (
      tokenizer.cached_ids(),
      (tokenizer.cls, tokenizer.sep),
    )

  def token_ids(self, text: str) -> list[int]:
    return self._ids(text)

  def encode(
    self, text_a: str, text_b: str | None = None, keep_empty: bool = False
  ) -> Row:
    """Makes a row. An empty second text counts only with `keep_empty`."""
    first = self.token_ids(text_a)
    second = self.token_ids(text_b or "")
    has_second = bool(second) or keep_empty
    special = 3 if has_second else 2  # [CLS] and [SEP]s
    length = len(first) + len(second) + special
    truncate_pair(first, second, self.seq_length - special)
    second_text = second if has_second else None
    return Row(*features.join(first, second_text, *self._ends), length)

  def inputs(self, ids: Sequence[int], segments: Sequence[int]) -> dict:
    pad = self.tokenizer.pad
    return features.pad_inputs(ids, segments, self.seq_length, pad)


def truncate_pair(first: list[int], second: list[int], limit: int) -> None:
  """Truncates two texts in place to `limit` tokens together.

  Removes the last token of the longer text, or of the second text if both are
  equally long, until both fit (run_classifier.py of the original).
  """
  while len(first) + len(second) > limit:
    longer = first if len(first) > len(second) else second
    longer.pop()


def check_texts(
  name: str, value: Any, rank: int, takes_words: bool = False
) -> Any:
  """Returns a text or words (rank 0), or nested lists; UserError if wrong."""
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
  if are_words and (empty := [i for i, word in enumerate(texts) if not word]):
    raise UserError(f"{name}[{empty[0]}] is empty: give a word")
  if rank > 1 and [] in texts:
    raise UserError(f"a list in {name} is empty")
  return texts
