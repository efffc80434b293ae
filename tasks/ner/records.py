"""Turns sentences with tags into records, each with a TagWindow.

A record has a sentence, or a part of a long sentence. Document context adds the
neighboring sentences (section 5.3 of the paper). The label of a word's first
piece is the word's tag. Other tokens have the label -1, which losses ignore.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, groupby
from typing import NamedTuple

from data import features
from data.features import RowEncoder
from data.vocab import Tokenizer
from tasks.ner.examples import Sentence

IGNORED = -1


class TagWindow(NamedTuple):
  """The words of a sentence that have labels in one record."""

  word: int  # index of the first word in the sentence
  positions: list[int]  # position of each word's first piece in the record


class TagRecordBuilder(RowEncoder):
  """Makes records and windows of sentences, in the order of the words.

  Every word is tagged in exactly one window. Neighboring words of the sentence,
  or with `document_context` of the document, fill the remaining tokens of a
  record. A word without tokens becomes [UNK]. `lengths` counts sentences.
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
    self._unknown = tokenizer.unknown
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
    """Yields token ids, tags and window of each record of a document."""
    words = [
      self.token_ids(word)[: self._max_pieces] or [self._unknown]
      for sentence in sentences
      for word in sentence.words
    ]
    starts = [0, *accumulate(map(len, words))]  # of words; then the text's end
    text = [piece for word in words for piece in word]
    first = 0
    for sentence in sentences:
      last = first + len(sentence.words)
      self.lengths[starts[last] - starts[first] + 2] += 1
      lengths = list(map(len, words[first:last]))
      for begin, end in split_long(lengths, self._max_pieces):
        part = starts[first + begin : first + end + 1]
        # Context on both sides fills the record.
        spare = self._max_pieces - (part[-1] - part[0])
        after = len(text) - part[-1]
        before = min(part[0], max(spare // 2, spare - after))
        left, right = part[0] - before, part[-1] + min(after, spare - before)
        positions = [1 + start - left for start in part[:-1]]
        tags = sentence.tags and sentence.tags[begin:end]
        ids, _ = features.join(text[left:right], None, *self._ends)
        yield ids, tags, TagWindow(begin, positions)
      first = last


def split_long(
  lengths: Sequence[int], max_pieces: int
) -> list[tuple[int, int]]:
  """Splits words into parts, [begin, end), with similar numbers of pieces."""
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
