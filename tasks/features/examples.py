"""Lines of one text or of two, "text_a ||| text_b", to batches of inputs.

A line is one sequence of tokens, as in the original's extract_features.py. At
most a window of lines is in memory.

Legend: B batch, T tokens.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from data import features
from data.tokenization import CachedTokenizer, FullTokenizer
from data.vocab import CLS, SEP
from storage import files

# Separates the texts of a line.
SEPARATOR = " ||| "


class Line(NamedTuple):
  """Tokens of a line, with [CLS] and [SEP]; the first line's number is 0."""

  number: int
  ids: list[int]
  segments: list[int]


def split(text: str) -> tuple[str, str | None]:
  """The texts of a line, at its last separator."""
  first, separator, second = text.strip().rpartition(SEPARATOR)
  return (first, second) if separator else (second, None)


def count(path: str) -> int:
  """Number of lines in a file, all of which are checked.

  Raises:
    OSError: the file cannot be read.
    ValueError: a line is not UTF-8 (it is named), or there is none.
  """
  number = sum(1 for _ in files.lines(path))
  if not number:
    raise ValueError(f"{path} is empty: it should hold one text a line")
  return number


def read_lines(
  path: str, tokenizer: FullTokenizer, max_seq_length: int
) -> Iterator[Line]:
  """Reads and tokenizes a file line by line.

  A blank line is a text without words. Of two texts that are longer together
  than `max_seq_length`, the longer one loses its last tokens first.
  """
  tokens = CachedTokenizer(tokenizer)
  cls, sep = tokenizer.convert_tokens_to_ids([CLS, SEP])
  for number, text in enumerate(files.lines(path)):
    text_a, text_b = split(text)
    first = tokens.ids(text_a)
    # A second text without tokens counts as none.
    second = (text_b and tokens.ids(text_b)) or None
    if second:
      features.truncate_pair(first, second, max_seq_length - 3)
    else:
      del first[max_seq_length - 2 :]
    yield Line(number, *features.pack(first, second, cls, sep))


def windows(lines: Iterable[Line], max_tokens: int) -> Iterator[list[Line]]:
  """Splits a stream of lines where `max_tokens` are reached or exceeded."""
  window, tokens = [], 0
  for line in lines:
    window.append(line)
    tokens += len(line.ids)
    if tokens >= max_tokens:
      yield window
      window, tokens = [], 0
  if window:
    yield window


def batches(
  window: Sequence[Line], batch_size: int, max_seq_length: int, multiple: int
) -> Iterator[tuple[list[int], dict[str, np.ndarray]]]:
  """Batches of lines of similar length, with little padding.

  T, at most `max_seq_length`, is the longest line's length, rounded up to a
  multiple of `multiple`.

  Yields:
    Indices of the lines in the window, and the encoder's inputs, [B, T] int32
    each.
  """
  order = sorted(range(len(window)), key=lambda i: len(window[i].ids))
  for start in range(0, len(order), batch_size):
    indices = order[start : start + batch_size]
    longest = len(window[indices[-1]].ids)
    length = min(-(-longest // multiple) * multiple, max_seq_length)
    rows = [
      features.pad_inputs(window[i].ids, window[i].segments, length)
      for i in indices
    ]
    yield (
      indices,
      {name: np.array([r[name] for r in rows], np.int32) for name in rows[0]},
    )
