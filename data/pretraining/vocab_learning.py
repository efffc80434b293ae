"""WordPiece vocabularies learned from word counts, and extended by words.

The learner is tensorflow_text's. Its result is completed to the requested size
and to all characters of the alphabet.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping

from absl import logging

from data.tokenization import BasicTokenizer, WordpieceTokenizer
from storage import UserError

JOINER = "##"
MAX_TOKEN_LENGTH = 50  # characters; longer words are ignored


class WordCounter:
  """Counts the words of a text in bounded memory.

  Text between blanks is counted first; distinct pieces are tokenized in bulk.
  After each bulk there are at most `max_words` of each.
  """

  def __init__(self, do_lower_case: bool, max_words: int):
    self._tokenizer = BasicTokenizer(do_lower_case)
    self._max_words = max_words
    self._pieces = Counter()
    self._words = Counter()
    self._max_dropped = 0  # Words counted up to this often may be missing.

  def empty(self) -> "WordCounter":
    """A new counter with the same options."""
    return WordCounter(self._tokenizer.do_lower_case, self._max_words)

  def add(self, line: str) -> None:
    self._pieces.update(line.split(" "))
    if len(self._pieces) > self._max_words:
      self._tokenize()

  def add_word(self, word: str, count: int) -> None:
    self._words[word] += count
    self._drop_rare()

  def counts(self) -> Counter:
    """Counts by word, sorted: the order of the text has no effect."""
    self._tokenize()
    return Counter(dict(sorted(self._words.items())))

  def _tokenize(self):
    for piece, count in self._pieces.items():
      for word in self._tokenizer.tokenize(piece):
        self._words[word] += count
    self._pieces.clear()
    self._drop_rare()

  def _drop_rare(self):
    while len(self._words) > self._max_words:
      self._max_dropped += 1
      self._words = Counter(
        {w: n for w, n in self._words.items() if n > self._max_dropped}
      )
      logging.info("dropped words counted %d times or less", self._max_dropped)


def smooth(sources: Mapping[str, Counter], exponent: float) -> Counter:
  """Sum of the word counts of sources, weighted by n**exponent for n words.

  The largest source keeps its counts. Source: the original's multilingual.md,
  with an exponent of 0.7.
  """
  totals = {name: counts.total() for name, counts in sources.items()}
  largest = max(totals.values())
  result = Counter()
  for name, counts in sources.items():
    factor = (largest / totals[name]) ** (1 - exponent)
    if len(sources) > 1:
      logging.info("%s: %d words, times %.2f", name, totals[name], factor)
    for word, count in counts.items():
      result[word] += round(factor * count)
  return Counter(dict(sorted(result.items())))


def alphabet(counts: Counter, max_chars: int) -> list[str]:
  """The most frequent characters, sorted; logs a warning about the others."""
  chars = Counter()
  for word, count in counts.items():
    for char in word:
      chars[char] += count
  result = [char for char, _ in chars.most_common(max_chars)]
  if len(chars) > max_chars:
    dropped = 1 - sum(chars[char] for char in result) / chars.total()
    logging.warning(
      "--max_alphabet=%d leaves out %d rare characters (%.3g%% of the text):"
      " words that contain one become [UNK]",
      max_chars,
      len(chars) - max_chars,
      100 * dropped,
    )
  return sorted(result)


def learn(
  counts: Counter,
  reserved: list[str],
  chars: list[str],
  vocab_size: int,
  min_count: int,
) -> list[str]:
  """Learns a vocabulary: tokens in the order of their ids.

  `reserved` come first, then `chars`, the alphabet, alone and with "##". There
  are `vocab_size` tokens, or fewer if the text does not yield as many;
  ValueError if that is too small for the alphabet. Rarer words than `min_count`
  are ignored.
  """
  fixed = reserved + chars + [JOINER + char for char in chars]
  if len(fixed) > vocab_size:
    raise UserError(
      f"--vocab_size={vocab_size} is too small for {len(reserved)} reserved"
      f" tokens and {len(chars)} characters, with and without {JOINER}: give at"
      f" least {len(fixed)}, or a smaller --max_alphabet"
    )
  known = set(chars)
  words = Counter(
    {
      word: count
      for word, count in counts.items()
      if count >= min_count
      and len(word) <= MAX_TOKEN_LENGTH
      and known.issuperset(word)
    }
  )
  tokens = dict.fromkeys(fixed)
  tokens.update(dict.fromkeys(_learned(words, reserved, chars, vocab_size)))
  # The learner yields slightly less than vocab_size: words fill the rest.
  tokens.update(dict.fromkeys(word for word, _ in words.most_common()))
  return list(tokens)[:vocab_size]


def _learned(words, reserved, chars, vocab_size):
  """Tokens learned by tensorflow_text, the most frequent first."""
  # Imports TensorFlow, which takes seconds.
  from tensorflow_text.tools.wordpiece_vocab import (  # noqa: PLC0415
    wordpiece_tokenizer_learner_lib as learner,
  )

  # All characters count, even those of ignored words only.
  return learner.learn(
    (Counter(chars) | words).items(),
    vocab_size,
    reserved,
    upper_thresh=None,
    lower_thresh=None,
    max_input_tokens=-1,
    max_token_length=MAX_TOKEN_LENGTH,
    max_unique_chars=len(chars),
    joiner=JOINER,
  )


def choose_words(
  counts: Counter, tokens: Iterable[str], number: int, min_count: int
) -> list[str]:
  """Words to add to a vocabulary, those first that save most word pieces.

  A word saves its count times the pieces beyond one; [UNK] counts as two. As a
  new word also begins longer words, savings are computed again with the words
  chosen before. Words rarer than `min_count`, or without a letter, are not
  added.
  """
  vocabulary = dict.fromkeys(tokens, 0)
  pieces = WordpieceTokenizer(vocabulary).tokenize

  def saved(word):
    split = pieces(word)
    return 0 if split == [word] else counts[word] * max(1, len(split) - 1)

  heap = [
    (-saved(word), word)
    for word, count in counts.items()
    if count >= min_count
    and len(word) <= MAX_TOKEN_LENGTH
    and any(map(str.isalpha, word))
  ]
  heapq.heapify(heap)
  result = []
  while heap and len(result) < number:
    before, word = heapq.heappop(heap)
    now = -saved(word)
    if now > before:  # others save more, perhaps
      heapq.heappush(heap, (now, word))
    elif now < 0:
      vocabulary[word] = 0
      result.append(word)
  return result


def split_statistics(
  counts: Counter, tokens: Iterable[str]
) -> tuple[float, float]:
  """Fraction of the words that are not tokens, and pieces per word."""
  vocabulary = dict.fromkeys(tokens, 0)
  pieces = WordpieceTokenizer(vocabulary).tokenize
  split = sum(n for word, n in counts.items() if word not in vocabulary)
  number = sum(n * len(pieces(word)) for word, n in counts.items())
  return split / counts.total(), number / counts.total()
