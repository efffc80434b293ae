"""Learns WordPiece vocabularies from word counts, and adds words to them."""

import heapq
import itertools
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from absl import logging

from data import vocab
from data.tokenization import JOINER, BasicTokenizer, WordpieceTokenizer
from storage import Progress, UserError, setting

MAX_TOKEN_LENGTH = 50  # characters; longer words are ignored


class WordCounter:
  """Counts the words of a text in bounded memory.

  Counts the pieces between blanks first. If there are more than `max_words`
  distinct pieces, tokenizes them all, and drops the rarest words until there
  are at most `max_words`.
  """

  def __init__(self, do_lower_case: bool, max_words: int):
    self._tokenizer = BasicTokenizer(do_lower_case)
    self._max_words = max_words
    self._pieces: Counter[str] = Counter()
    self._words: Counter[str] = Counter()
    self._max_dropped = 0  # words with up to this count may be missing

  def add(self, line: str) -> None:
    self._pieces.update(line.split())
    if len(self._pieces) > self._max_words:
      self._tokenize()

  def add_word(self, word: str, count: int) -> None:
    self._words[word] += count
    self._tokenize()

  def counts(self) -> Counter:
    """Counts by word, sorted, so that the order of the text has no effect."""
    self._tokenize()
    return Counter(dict(sorted(self._words.items())))

  def _tokenize(self):
    """Turns pieces into words, and drops the rarest words if they are many."""
    for piece, count in self._pieces.items():
      for word in self._tokenizer.tokenize(piece):
        self._words[word] += count
    self._pieces.clear()
    while len(self._words) > self._max_words:
      limit = max(self._max_dropped + 1, min(self._words.values()))
      self._words = Counter({w: n for w, n in self._words.items() if n > limit})
      self._max_dropped = limit
      logging.info("dropped words counted %d times or less", self._max_dropped)


def smooth(sources: Mapping[str, Counter], exponent: float) -> Counter:
  """Sums the word counts of sources; a source of n words weighs n**exponent.

  The largest source keeps its counts. Source: the original's multilingual.md.
  """
  totals = {name: counts.total() for name, counts in sources.items()}
  largest = max(totals.values())
  result: Counter[str] = Counter()
  for name, counts in sources.items():
    factor = (largest / totals[name]) ** (1 - exponent)
    if len(sources) > 1:
      logging.info("%s: %d words, times %.2f", name, totals[name], factor)
    for word, count in counts.items():
      result[word] += round(factor * count)
  return Counter(dict(sorted(result.items())))


def alphabet(counts: Counter, max_chars: int) -> list[str]:
  """The most frequent characters, sorted; logs a warning about rarer ones."""
  chars: Counter[str] = Counter()
  for word, count in counts.items():
    for char in word:
      chars[char] += count
  result = [char for char, _ in chars.most_common(max_chars)]
  if len(chars) > max_chars:
    dropped = 1 - sum(chars[char] for char in result) / chars.total()
    logging.warning(
      f"{setting('max_alphabet', max_chars)} leaves out "
      f"{len(chars) - max_chars} rare characters ({100 * dropped:.3g}% of "
      "the text): words that contain one become [UNK]"
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

  First come `reserved`, the alphabet `chars`, and "##" with each character that
  occurs inside a word. Then come pieces that occur `min_count` times or more.
  Raises UserError if `vocab_size` is too small for the alphabet.
  """
  inside = {char for word in counts for char in word[1:]}.intersection(chars)
  letters = chars + [JOINER + char for char in sorted(inside)]
  tokens = dict.fromkeys(reserved + letters)
  if len(tokens) > vocab_size:
    raise UserError(
      f"{setting('vocab_size', vocab_size)} is too small for the characters: "
      f"give at least {len(tokens)}, or a smaller {setting('max_alphabet')}"
    )
  known = set(chars)
  words = {
    word: count
    for word, count in counts.items()
    if len(word) <= MAX_TOKEN_LENGTH and known.issuperset(word)
  }
  progress = Progress("learned", vocab_size - len(tokens), "pieces")
  for piece in _merge_pairs(words, letters, min_count):
    if len(tokens) == vocab_size:
      break
    tokens[piece] = None
    progress.add(1)
  return list(tokens)


def _merge_pairs(words, letters, min_count):
  """Yields new pieces: joins the most frequent pair of pieces, repeatedly.

  Among equally frequent pairs, the oldest wins. Source: arXiv 1508.07909.
  """
  pieces = list(letters)
  symbols = {piece: chr(index) for index, piece in enumerate(pieces)}
  pairs = _Pairs(
    (symbols[word[0]] + "".join(symbols[JOINER + c] for c in word[1:]), count)
    for word, count in words.items()
  )
  while pair := pairs.most_frequent(min_count):
    first, second = (pieces[ord(symbol)] for symbol in pair)
    piece = first + second.removeprefix(JOINER)
    if piece not in symbols:
      symbols[piece] = chr(len(pieces))
      pieces.append(piece)
      yield piece
    pairs.merge(pair, symbols[piece])


class _Pairs:
  """Counts of adjacent symbols in words.

  A word is a string with a code point for each symbol, so str.replace merges a
  pair. A heap has all pairs by count. Some entries of the heap are out of date.
  """

  def __init__(self, words: Iterable[tuple[str, int]]):
    self._words, self._word_counts = [], []
    self._counts: Counter[str] = Counter()
    # Indices of the words that have, or had, a pair.
    self._indices: defaultdict = defaultdict(lambda: array("I"))
    for index, (word, count) in enumerate(words):
      self._words.append(word)
      self._word_counts.append(count)
      for pair in map("".join, itertools.pairwise(word)):
        self._counts[pair] += count
        self._indices[pair].append(index)
    self._heap = [(-count, pair) for pair, count in self._counts.items()]
    heapq.heapify(self._heap)

  def most_frequent(self, min_count: int) -> str | None:
    """The pair with the highest count, or None if all are below min_count."""
    while self._heap:
      count, pair = self._heap[0]
      if self._counts[pair] == -count >= min_count:
        return pair
      heapq.heappop(self._heap)  # merging other pairs has lowered the count
      if self._counts[pair] >= min_count:
        heapq.heappush(self._heap, (-self._counts[pair], pair))
    return None

  def merge(self, pair: str, symbol: str) -> None:
    """Replaces a pair by a symbol in all words."""
    new_pairs = set()
    for index in self._indices.pop(pair):
      before, count = self._words[index], self._word_counts[index]
      self._words[index] = after = before.replace(pair, symbol)
      if before == after:
        continue
      for old in map("".join, itertools.pairwise(before)):
        self._counts[old] -= count
      for new in map("".join, itertools.pairwise(after)):
        self._counts[new] += count
        if symbol in new:
          self._indices[new].append(index)
          new_pairs.add(new)
    for new in new_pairs:
      heapq.heappush(self._heap, (-self._counts[new], new))


def choose_words(
  counts: Counter, tokens: Iterable[str], number: int, min_count: int
) -> list[str]:
  """Chooses the words that save most word pieces, best first.

  A word of n pieces saves n - 1 pieces each time it occurs; [UNK] counts as two
  pieces. A chosen word may begin longer words, so savings are computed again
  after each choice. Leaves out words without a letter or below `min_count`.
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
  result: list[str] = []
  while heap and len(result) < number:
    before, word = heapq.heappop(heap)
    now = -saved(word)
    if now > before:  # saves less than before; another word may save more
      heapq.heappush(heap, (now, word))
    elif now < 0:
      vocabulary[word] = 0
      result.append(word)
  return result


def reserved_tokens(special: Sequence[str], unused: int) -> list[str]:
  """Tokens that are not learned, in the order of their ids."""
  vocab.check_tokens(special, vocab.SPECIAL_TOKENS, setting("special_tokens"))
  return [*special, *(f"[unused{index}]" for index in range(unused))]


def extend(
  path: str, counts: Counter, text_name: str, number: int, min_count: int
) -> tuple[list[str], dict[int, list[int]]]:
  """Adds `number` words to a vocabulary; 0 adds one per [unused] token.

  `text_name` is for messages. Returns the lines of the vocabulary, and a dict
  from the id of each new word to the ids of its pieces. Raises ValueError if
  there is no word to add.
  """
  lines = vocab.read_text(path).replace("\r", "").rstrip("\n").split("\n")
  tokens = [*map(str.strip, lines)]
  unused = vocab.unused_ids(tokens)
  number = number or len(unused)
  words = choose_words(counts, tokens, number, min_count)
  if not words:
    raise UserError(
      f"{path} has all words that {text_name} has "
      f"{setting('min_count', min_count)} times or more: nothing to add"
    )
  ids = (unused + list(range(len(tokens), len(tokens) + number)))[: len(words)]
  new_words = dict(zip(ids, words, strict=True))
  extended = dict(enumerate(lines)) | new_words
  appended = len(extended) - len(tokens)
  logging.info(
    f"{len(words)} new words ({', '.join(words[:5])}, ...): "
    f"{len(words) - appended} replace [unused] tokens, {appended} are appended"
  )
  token_ids = {token: index for index, token in enumerate(tokens)}
  split = WordpieceTokenizer(token_ids).tokenize
  return list(extended.values()), {
    index: [token_ids[piece] for piece in split(word)]
    for index, word in new_words.items()
  }
