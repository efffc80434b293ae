"""Lines of one text or of two, "text_a ||| text_b", to batches for the encoder.

A line is one sequence of tokens, as in extract_features.py of the original.
Nothing here holds more of the input than a window of lines.

Legend: B batch, T tokens.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from data import files, packing
from data.tokenization import CachedTokenizer, FullTokenizer
from data.vocab import CLS, SEP

# Between the texts of a line, with a blank on either side.
_BAR = " ||| "


class Line(NamedTuple):
  """The tokens of a line.

  Attributes:
    number: of the line, counted from 0.
    ids: token ids, [CLS] and [SEP] among them.
    segments: for each token 0 if it is of the first text or 1.
  """

  number: int
  ids: list[int]
  segments: list[int]


def split(text: str) -> tuple[str, str | None]:
  """The texts of a line; of several bars the last one separates."""
  first, bar, second = text.strip().rpartition(_BAR)
  return (first, second) if bar else (second, None)


def count(path: str) -> int:
  """Number of lines in a file, each of which has been looked at.

  Raises:
    OSError: the file cannot be read.
    ValueError: a line is not UTF-8 (it is named), or there is none.
  """
  number = sum(1 for _ in files.lines(path))
  if not number:
    raise ValueError(f"{path} is empty: it should hold one text a line")
  return number


def read(
  path: str, tokenizer: FullTokenizer, max_seq_length: int
) -> Iterator[Line]:
  """Reads and tokenizes a file line by line.

  Args:
    path: one text a line, or two with " ||| " between them. A blank line is a
      text without words.
    tokenizer: makes tokens of texts.
    max_seq_length: T; of two texts that are longer together, the longer one
      loses its last tokens first.

  Yields:
    All lines, in order.
  """
  tokens = CachedTokenizer(tokenizer)
  cls, sep = tokenizer.convert_tokens_to_ids([CLS, SEP])
  for number, text in enumerate(files.lines(path)):
    text_a, text_b = split(text)
    first = tokens.ids(text_a)
    # A second text without a token is as good as none.
    second = (text_b and tokens.ids(text_b)) or None
    if second:
      packing.truncate_pair(first, second, max_seq_length - 3)
    else:
      del first[max_seq_length - 2 :]
    yield Line(number, *packing.join(first, second, cls, sep))


def windows(lines: Iterable[Line], max_tokens: int) -> Iterator[list[Line]]:
  """Cuts a stream of lines where `max_tokens` is reached or just exceeded."""
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
  """Batches of lines of like length, so that there is little to pad.

  Args:
    window: lines.
    batch_size: B, of all batches but the last.
    max_seq_length: no batch is longer.
    multiple: what a batch's length is rounded up to.

  Yields:
    The lines' places in the window, and the encoder's inputs, [B, T] int32
    each, where T is what the longest line needs.
  """
  order = sorted(range(len(window)), key=lambda i: len(window[i].ids))
  for start in range(0, len(order), batch_size):
    places = order[start : start + batch_size]
    longest = len(window[places[-1]].ids)
    length = min(-(-longest // multiple) * multiple, max_seq_length)
    rows = [
      packing.inputs(window[i].ids, window[i].segments, length) for i in places
    ]
    yield (
      places,
      {name: np.array([r[name] for r in rows], np.int32) for name in rows[0]},
    )
