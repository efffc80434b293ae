"""Texts that a user of Python gives: checked, in plain lists."""

from collections.abc import Mapping
from typing import Any

from storage import UserError
from storage.textfiles import SURROGATE


def check_texts(
  name: str, value: Any, rank: int, takes_words: bool = False
) -> Any:
  """Text, or words, of rank 0, or (nested) list; raises UserError if wrong."""
  if isinstance(value, bytes):
    value = value.decode("utf-8", "replace")
  are_words = takes_words and not rank and not isinstance(value, str)
  rank += are_words
  if not rank and isinstance(value, str) and not SURROGATE.search(value):
    return value
  is_list = rank and hasattr(value, "__iter__")
  is_list &= not isinstance(value, str | Mapping | set | frozenset)
  # A data frame would be the names of its columns.
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
