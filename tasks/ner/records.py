"""Makes records of tagged sentences, and assigns predictions to words.

A record has a sentence, or a part of a long sentence. With document context
(section 5.3 of the paper) the record also has the neighboring sentences, up to
the maximum length. The first word piece of each word has the tag as label. All
other tokens have the label -1, which losses ignore.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, groupby, pairwise
from typing import NamedTuple

import numpy as np

from data import features
from data.features import RowEncoder
from data.vocab import Tokenizer
from tasks.ner.examples import Sentence

IGNORED = -1


class TagWindow(NamedTuple):
  """Words that have labels in a record."""

  word: int  # index of the first word in the sentence
  positions: list[int]  # position of each word's first piece in the record


class TagRecordBuilder(RowEncoder):
  """Makes records and windows of sentences, in the order of the words.

  Every word is in exactly one window. A word without tokens becomes [UNK].
  With `document_context` a record is filled with the words before and after,
  from the same document; otherwise from the same sentence. `tags` are in the
  order of their ids. `lengths` counts sentences by number of tokens.
  """

  def __init__(
    self,
    tokenizer: Tokenizer,
    seq_length: int,
    tags: Sequence[str],
    document_context: bool = False,
  ):
    super().__init__(tokenizer, seq_length)
    self.lengths: Counter[int] = Counter()
    self._unk = tokenizer.unknown
    self.schema = features.tagging(seq_length)
    self._max_pieces = seq_length - 2
    self._tag_ids = {tag: i for i, tag in enumerate(tags)}
    self._document_context = document_context

  def __call__(
    self, sentences: Sequence[Sentence]
  ) -> Iterator[tuple[dict[str, list], TagWindow]]:
    documents = ([sentence] for sentence in sentences)
    if self._document_context:
      groups = groupby(sentences, lambda sentence: sentence.document)
      documents = (list(group) for _, group in groups)
    for ids, tags, window in chain.from_iterable(map(self.windows, documents)):
      labels = [IGNORED] * self.seq_length
      if tags is not None:
        for position, tag in zip(window.positions, tags, strict=True):
          labels[position] = self._tag_ids[tag]
      row = self.inputs(ids, [0] * len(ids))
      yield row | {"label_ids": labels}, window

  def windows(
    self, sentences: Sequence[Sentence]
  ) -> Iterator[tuple[list[int], list[str] | None, TagWindow]]:
    """Token ids, tags and window of each record, with context from all."""
    words = [
      self.token_ids(word)[: self._max_pieces] or [self._unk]
      for sentence in sentences
      for word in sentence.words
    ]
    starts = [0, *accumulate(map(len, words))]  # of words; and the end
    text = [piece for word in words for piece in word]
    first = 0
    for sentence in sentences:
      last = first + len(sentence.words)
      self.lengths[starts[last] - starts[first] + 2] += 1
      lengths = list(map(len, words[first:last]))
      for begin, end in split_long(lengths, self._max_pieces):
        part = starts[first + begin : first + end + 1]
        left, right = add_context(
          part[0], part[-1], len(text), self._max_pieces
        )
        positions = [1 + start - left for start in part[:-1]]
        tags = sentence.tags and sentence.tags[begin:end]
        ids, _ = features.join(text[left:right], None, *self._ends)
        yield ids, tags, TagWindow(begin, positions)
      first = last


def split_long(
  lengths: Sequence[int], max_pieces: int
) -> list[tuple[int, int]]:
  """Splits words into parts of about equal length; begin and end of each."""
  total = sum(lengths)
  target = math.ceil(total / math.ceil(total / max_pieces))
  parts = []
  begin = size = 0
  for word, length in enumerate(lengths):
    if size and size + length > target:
      parts.append((begin, word))
      begin, size = word, 0
    size += length
  return [*parts, (begin, len(lengths))]


def add_context(
  begin: int, end: int, length: int, max_pieces: int
) -> tuple[int, int]:
  """Begin and end of a part, extended on both sides to `max_pieces` pieces."""
  spare = max_pieces - (end - begin)
  after = length - end
  left = min(begin, max(spare // 2, spare - after))
  right = min(after, spare - left)
  return begin - left, end + right


def first_piece_values(
  values: np.ndarray, windows: Sequence[TagWindow]
) -> np.ndarray:
  """Values at the first piece of each word: [N, T, ...] -> [words, ...]."""
  rows = [n for n, w in enumerate(windows) for _ in w.positions]
  positions = [position for w in windows for position in w.positions]
  return values[rows, positions]


def group_by_sentence(
  values: Sequence, sentences: Sequence[Sentence]
) -> list[Sequence]:
  """Splits the values of all words by sentence."""
  ends = [0, *accumulate(len(sentence.words) for sentence in sentences)]
  return [values[begin:end] for begin, end in pairwise(ends)]
