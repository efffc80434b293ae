"""Windows: a question, and as much of its paragraph as the model can see.

A long paragraph is seen through several windows, which overlap. Each becomes
one record, and the list of them is what decoding needs to find its way back
from a position to words (evaluation/squad.py). All numbers are those of
convert_examples_to_features in the original's run_squad.py.

Legend: T tokens of a record, N tokens of a window (N <= T), D those of them
that are of the paragraph.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import NamedTuple

import numpy as np

from data import packing, workers
from data.features import Schema
from data.progress import Progress
from data.tasks.squad import Answer, Example
from data.tokenization import CachedTokenizer, FullTokenizer
from data.vocab import CLS, SEP, require

FIRST_UNIQUE_ID = 1_000_000_000

# Examples a worker takes at a time: a second's work or less.
_CHUNK = 1000


@dataclass(frozen=True)
class Settings:
  """How windows are cut, by the names of the original's flags.

  Attributes:
    max_seq_length: T.
    max_query_length: tokens of the question; what is beyond is cut off.
    doc_stride: tokens from one window to the next. Where it is greater than
      what a window holds, windows lie side by side: nothing is left out.

  Raises:
    ValueError: no window could be cut like that.
  """

  max_seq_length: int = 384
  max_query_length: int = 64
  doc_stride: int = 128

  def __post_init__(self):
    if self.max_seq_length <= self.max_query_length + 3:
      raise ValueError(
        f"max_seq_length {self.max_seq_length} must be greater than "
        f"max_query_length {self.max_query_length} + 3 ([CLS] and two [SEP]), "
        "or a window may have no room for the paragraph"
      )
    for name in ("max_query_length", "doc_stride"):
      if getattr(self, name) < 1:
        raise ValueError(f"{name} {getattr(self, name)} must be at least 1")


class Window(NamedTuple):
  """[CLS] question [SEP] part of the paragraph [SEP].

  Attributes:
    unique_id: number of the window, counted from 1,000,000,000.
    example_index: number of its example.
    ids: [N] token ids.
    first: position of the first token of the paragraph.
    words: [D] int32, the word each of the paragraph's tokens belongs to.
    is_max_context: [D] bool, whether a token has no more context in another
      window; each token of the paragraph has it in exactly one.
    start: position of the answer's first token; 0 if the answer is not wholly
      in this window, or there is none.
    end: position of its last token, or 0.
    is_impossible: whether the example has no answer.
  """

  unique_id: int
  example_index: int
  ids: list[int]
  first: int
  words: np.ndarray
  is_max_context: np.ndarray
  start: int
  end: int
  is_impossible: bool


def windows(
  examples: Sequence[Example],
  tokenizer: FullTokenizer,
  settings: Settings,
  num_workers: int = 1,
  progress: Progress | None = None,
) -> Iterator[Window]:
  """Cuts the paragraphs of questions into windows.

  Args:
    examples: the questions.
    tokenizer: makes tokens of words.
    settings: lengths.
    num_workers: how many processes to use; the result is always the same. One
      makes tens of thousands of windows a second, mostly more than the others
      could be fed: more are for millions of questions.
    progress: told how many examples are done, and of how many windows.

  Yields:
    Windows, in the order of the examples; none where there is no token.

  Raises:
    ValueError: the vocabulary lacks [CLS] or [SEP].
    ChildProcessError: a worker died; says what it worked on.
  """
  require(tokenizer.vocab, (CLS, SEP))
  chunks = [
    _Chunk(start, examples[start : start + _CHUNK])
    for start in range(0, len(examples), _CHUNK)
  ]
  prepare = partial(_Cutter, tokenizer, settings)
  numbers = count(FIRST_UNIQUE_ID)
  for chunk, found in zip(
    chunks, _cut(prepare, chunks, num_workers, progress), strict=True
  ):
    if progress:
      progress.add(len(chunk.examples), windows=len(found))
    for window in found:
      yield window._replace(unique_id=next(numbers))
  if progress:
    progress.say()


def row(window: Window, schema: Schema) -> dict[str, Sequence[int]]:
  """The fields of a window's record.

  Args:
    window: the window.
    schema: of features.squad, for training or not.

  Returns:
    Values by name, as data/tfrecord.py takes them.
  """
  inside = len(window.ids) - window.first
  segments = [0] * window.first + [1] * inside
  fields = {
    "unique_ids": [window.unique_id],
    **packing.inputs(window.ids, segments, schema["input_ids"].size),
    "start_positions": [window.start],
    "end_positions": [window.end],
    "is_impossible": [int(window.is_impossible)],
  }
  return {name: fields[name] for name in schema}


class _Chunk(NamedTuple):
  """What a worker takes at a time: examples, from the `start`-th on."""

  start: int
  examples: Sequence[Example]

  def __str__(self) -> str:
    first, last = self.examples[0], self.examples[-1]
    return f"questions {first.qas_id} to {last.qas_id}"


def _cut(prepare, chunks, num_workers, progress) -> Iterator[list[Window]]:
  """The windows of each chunk, in order."""
  num_workers = min(num_workers, len(chunks))
  if num_workers < 2:
    yield from map(prepare(), chunks)
    return
  idle = progress.say if progress else lambda: None
  following, done = 0, {}
  for number, found in workers.run(prepare, chunks, num_workers, idle):
    done[number] = found
    while following in done:
      yield done.pop(following)
      following += 1


class _Document(NamedTuple):
  """The tokens of a paragraph.

  Attributes:
    ids: their ids.
    words: int32, for each the word it belongs to.
    bounds: for each word its first token; and the number of all tokens.
  """

  ids: list[int]
  words: np.ndarray
  bounds: list[int]


class _Cutter:
  """Makes the windows of a chunk; there is one in each process."""

  def __init__(self, tokenizer: FullTokenizer, settings: Settings):
    self._ids = CachedTokenizer(tokenizer).ids
    self._cls, self._sep = tokenizer.convert_tokens_to_ids([CLS, SEP])
    self._settings = settings
    self._words, self._document = None, None  # of the last paragraph

  def __call__(self, chunk: _Chunk) -> list[Window]:
    """All windows of the examples, not yet numbered."""
    return [
      window
      for index, example in enumerate(chunk.examples, chunk.start)
      for window in self._windows(index, example)
    ]

  def _windows(self, index: int, example: Example) -> Iterator[Window]:
    settings = self._settings
    question = self._ids(example.question)[: settings.max_query_length]
    document = self._tokenize(example.words)
    answer = example.answer and self._token_span(document, example.answer)
    first = len(question) + 2
    size = settings.max_seq_length - len(question) - 3
    parts = _parts(len(document.ids), size, settings.doc_stride)
    homes = _max_context(parts)

    for number, part in enumerate(parts):
      inside = slice(part.start, part.stop)
      ids, _ = packing.join(
        question, document.ids[inside], self._cls, self._sep
      )
      start = end = 0
      # An answer that is cut off is as good as none: it points to [CLS].
      if answer and part.start <= answer[0] and answer[1] < part.stop:
        start, end = (position - part.start + first for position in answer)
      yield Window(
        unique_id=0,
        example_index=index,
        ids=ids,
        first=first,
        words=document.words[inside],
        is_max_context=homes[inside] == number,
        start=start,
        end=end,
        is_impossible=example.answer is None,
      )

  def _tokenize(self, words: list[str]) -> _Document:
    if words is not self._words:
      pieces = [self._ids(word) for word in words]
      lengths = np.fromiter(map(len, pieces), np.int32, len(pieces))
      self._words = words
      self._document = _Document(
        ids=[token for piece in pieces for token in piece],
        words=np.arange(len(words), dtype=np.int32).repeat(lengths),
        bounds=[0, *lengths.cumsum().tolist()],
      )
    return self._document

  def _token_span(self, document: _Document, answer: Answer):
    """First and last token of an answer.

    An answer may be part of a word ("1895" of "(1895-1943)."): if its tokens
    are found among those of its words, they are it.
    """
    first = document.bounds[answer.start]
    last = document.bounds[answer.end + 1] - 1
    wanted = self._ids(answer.text)
    for start in range(first, last + 1) if wanted else ():
      end = start + len(wanted) - 1
      if end <= last and document.ids[start : end + 1] == wanted:
        return start, end
    return first, last


def _parts(length: int, size: int, stride: int) -> list[range]:
  """Cuts `length` tokens into overlapping parts of `size` at the most."""
  if not length:
    return []
  stride = min(stride, size)
  starts = range(0, max(length - size, 0) + stride, stride)
  return [range(start, min(start + size, length)) for start in starts]


def _max_context(parts: Sequence[range]) -> np.ndarray:
  """The part in which each token has most context, [tokens] int.

  That is where the shorter of its two sides is longest; the first of equals.
  """
  length = parts[-1].stop if parts else 0
  best = np.full(length, -1.0)
  homes = np.zeros(length, np.int64)
  for number, part in enumerate(parts):
    left = np.arange(len(part))
    context = np.minimum(left, left[::-1]) + 0.01 * len(part)
    better = context > best[part.start : part.stop]
    best[part.start : part.stop][better] = context[better]
    homes[part.start : part.stop][better] = number
  return homes
