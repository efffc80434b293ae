"""Turns questions into windows, windows into rows, tokens into words.

A window is a question with a part of the paragraph; windows overlap. All
numbers equal the results of convert_examples_to_features in the original's
run_squad.py. A window has N tokens, D of them from the paragraph.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from data import features
from data.vocab import Tokenizer
from storage import Progress
from storage.processes import Chunk, chunks, ordered_map
from storage.tfrecord import Schema
from tasks.squad.examples import Answer, SquadExample

FIRST_UNIQUE_ID = 1_000_000_000
# Number of examples that a worker receives at a time: at most a second's work.
_CHUNK = 1000


@dataclass(frozen=True)
class WindowConfig:
  """Lengths in tokens, named like the original's flags."""

  max_seq_length: int = 384
  max_query_length: int = 64
  doc_stride: int = 128  # capped, so that no token falls between two windows


class Window(NamedTuple):
  """A row: [CLS] question [SEP] part of the paragraph [SEP]."""

  example_index: int
  ids: list[int]  # [N]
  context_offset: int  # position of the first token of the paragraph
  token_word_ids: np.ndarray  # [D] int32, index of each token's word
  # [D] bool: this is the first window that gives the token most context.
  is_max_context: np.ndarray
  # Positions of the answer's first and last token; 0 and 0 without an answer.
  start: int
  end: int
  is_impossible: bool  # the example has no answer

  @property
  def segments(self) -> list[int]:
    """0 for the question, 1 for the paragraph: [N]."""
    num_second = len(self.ids) - self.context_offset
    return [0] * self.context_offset + [1] * num_second


def make_windows(
  examples: Sequence[SquadExample],
  tokenizer: Tokenizer,
  config: WindowConfig,
  num_workers: int = 1,
) -> Iterator[Window]:
  """Splits paragraphs into windows, in the order of the questions.

  Raises ValueError for a missing special token, ChildProcessError for a worker
  that died.
  """
  parts = chunks(examples, _CHUNK, "questions")
  prepare = partial(WindowMaker, tokenizer, config)
  progress = Progress("cut", len(examples), "questions")
  results = ordered_map(prepare, parts, num_workers)
  for chunk, windows in zip(parts, results, strict=True):
    progress.add(len(chunk.items), windows=len(windows))
    yield from windows
  progress.say()


def rows(
  windows: Iterable[Window], schema: Schema, padding: int = 0
) -> Iterator[dict[str, Sequence[int]]]:
  """Yields the fields of each window's record; see features.squad."""
  length = schema["input_ids"].size
  for unique_id, window in enumerate(windows, FIRST_UNIQUE_ID):
    fields = {
      "unique_ids": [unique_id],
      **features.pad_inputs(window.ids, window.segments, length, padding),
      "start_positions": [window.start],
      "end_positions": [window.end],
      "is_impossible": [int(window.is_impossible)],
    }
    yield {name: fields[name] for name in schema}


class _Document(NamedTuple):
  ids: list[int]
  word_ids: np.ndarray  # int32, index of each token's word
  word_starts: list[int]  # index of each word's first token, then the end


class WindowMaker:
  """Makes windows, safe in threads; ValueError without a special token."""

  def __init__(self, tokenizer: Tokenizer, config: WindowConfig):
    tokenizer.check("cls", "sep", "unknown")
    self._ids = tokenizer.cached_ids()
    self._ends = tokenizer.cls, tokenizer.sep
    self._config = config

  def __call__(self, chunk: Chunk) -> list[Window]:
    windows: list[Window] = []
    words = None
    for index, example in enumerate(chunk.items, chunk.first):
      if example.doc_tokens is not words:  # else the last question's paragraph
        words = example.doc_tokens
        pieces = [self._ids(word) for word in words]
        lengths = np.fromiter(map(len, pieces), np.int32, len(pieces))
        document = _Document(
          ids=[token for piece in pieces for token in piece],
          word_ids=np.arange(len(words), dtype=np.int32).repeat(lengths),
          word_starts=[0, *lengths.cumsum().tolist()],
        )
      windows += self._windows(index, example, document)
    return windows

  def _windows(
    self, index: int, example: SquadExample, document: _Document
  ) -> Iterator[Window]:
    """Yields the windows of an example, whose number is `index`."""
    config = self._config
    question = self._ids(example.question)[: config.max_query_length]
    answer = example.answer and self._token_span(document, example.answer)
    offset = len(question) + 2
    length, size = len(document.ids), config.max_seq_length - offset - 1
    stride = min(config.doc_stride, size)
    starts = range(0, max(length - size, 0) + stride, stride) if length else ()
    parts = [range(start, min(start + size, length)) for start in starts]
    max_context_window = _max_context_window(parts)
    for number, part in enumerate(parts):
      inside = slice(part.start, part.stop)
      ids, _ = features.join(question, document.ids[inside], *self._ends)
      start = end = 0
      # Without the complete answer, a window points to [CLS].
      if answer and part.start <= answer[0] and answer[1] < part.stop:
        first = part.start - offset  # token of the paragraph
        start, end = answer[0] - first, answer[1] - first
      yield Window(
        example_index=index,
        ids=ids,
        context_offset=offset,
        token_word_ids=document.word_ids[inside],
        is_max_context=max_context_window[inside] == number,
        start=start,
        end=end,
        is_impossible=example.answer is None,
      )

  def _token_span(self, document: _Document, answer: Answer):
    """Indices of the first and last token of an answer.

    If the tokens of `answer.text` do not occur in the answer's whole words,
    returns the first and last token of these words.
    """
    first = document.word_starts[answer.start]
    last = document.word_starts[answer.end + 1] - 1
    expected = self._ids(answer.text)
    for start in range(first, last + 1) if expected else ():
      end = start + len(expected) - 1
      if end <= last and document.ids[start : end + 1] == expected:
        return start, end
    return first, last


def _max_context_window(parts: Sequence[range]) -> np.ndarray:
  """For each token, the first part that gives it most context: [tokens] int64.

  Context is the distance to the nearer end, plus 0.01 x the part's length.
  """
  length = parts[-1].stop if parts else 0
  best = np.full(length, -1.0)
  result = np.zeros(length, np.int64)
  for number, part in enumerate(parts):
    left = np.arange(len(part))
    context = np.minimum(left, left[::-1]) + 0.01 * len(part)
    better = context > best[part.start : part.stop]
    best[part.start : part.stop][better] = context[better]
    result[part.start : part.stop][better] = number
  return result


# --- From windows back to words ----------------------------------------------


class Span(NamedTuple):
  """Words of a paragraph that a text comes from."""

  first: int  # index of a word
  last: int
  begin: int  # of the text in these words, which blanks separate


class AnswerText:
  """Finds the text of a span of tokens in the words of the paragraph."""

  def __init__(self, tokenizer: Tokenizer):
    self._tokenizer = tokenizer
    # A blank always ends a word, so words can be split one by one.
    self._split = lru_cache(1 << 17)(tokenizer.words)

  def text(
    self, words: Sequence[str], window: Window, start: int, end: int
  ) -> tuple[str, Span]:
    """Text of the tokens `start` to `end`, and its span.

    For the words "Steve Smith's", the tokens "steve smith" give "Steve Smith".
    Splits the words as the tokenizer does, finds the first place of the tokens
    in the result, and counts characters other than blanks to get back to the
    words. If this fails, returns the complete words.
    """
    pieces = self._tokenizer.convert_ids_to_tokens(window.ids[start : end + 1])
    first = int(window.token_word_ids[start - window.context_offset])
    last = int(window.token_word_ids[end - window.context_offset])
    tokens = self._tokenizer.join(pieces)
    words = words[first : last + 1]
    text = " ".join(words)
    parts = [part for word in words for part in self._split(word)]
    split = " ".join(parts)
    offsets = [i for i, char in enumerate(text) if char != " "]
    at = split.find(tokens) if tokens else -1
    if at < 0 or len(offsets) != len(split) - split.count(" "):
      return text, Span(first, last, 0)
    first_char = at - split.count(" ", 0, at)
    last_char = first_char + len(tokens) - tokens.count(" ") - 1
    begin, end = offsets[first_char], offsets[last_char] + 1
    return text[begin:end], Span(first, last, begin)
