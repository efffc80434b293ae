"""Learns a WordPiece vocabulary from words and how often they occur.

The learner is tensorflow_text's; here is what goes into it and what is made of
its answer, so that the vocabulary has the size asked for and every word whose
characters are in the alphabet can be pieced together.
"""

from collections import Counter

from absl import logging

from data.tokenization import BasicTokenizer

JOINER = "##"
LONGEST_TOKEN = 50  # in characters; longer words teach nothing


class WordCounter:
  """Counts the words of a text in bounded memory.

  What blanks separate is counted as it is, and tokenized only now and then,
  each distinct piece once.

  Args:
    do_lower_case: whether to lower-case and to strip accents.
    max_words: how many distinct pieces, and how many words, to hold.
  """

  def __init__(self, do_lower_case: bool, max_words: int):
    self._tokenizer = BasicTokenizer(do_lower_case)
    self._max_words = max_words
    self._pieces = Counter()
    self._words = Counter()
    self._forgotten = 0  # Words seen up to this often may be missing.

  def empty(self) -> "WordCounter":
    """One like this that has seen nothing."""
    return WordCounter(self._tokenizer.do_lower_case, self._max_words)

  def add(self, line: str) -> None:
    """Counts the words of a line."""
    self._pieces.update(line.split(" "))
    if len(self._pieces) > self._max_words:
      self._tokenize()

  def add_word(self, word: str, count: int) -> None:
    """Counts a word that was met so many times."""
    self._words[word] += count
    self._forget()

  def counts(self) -> Counter:
    """How often each word has been seen, in the order of the words.

    So the order of the text has no say where two words are equally frequent.
    """
    self._tokenize()
    return Counter(dict(sorted(self._words.items())))

  def _tokenize(self):
    for piece, count in self._pieces.items():
      for word in self._tokenizer.tokenize(piece):
        self._words[word] += count
    self._pieces.clear()
    self._forget()

  def _forget(self):
    while len(self._words) > self._max_words:
      self._forgotten += 1
      self._words = Counter(
        {w: n for w, n in self._words.items() if n > self._forgotten}
      )
      logging.info("forgot words seen %d times or less", self._forgotten)


def alphabet(counts: Counter, most: int) -> list[str]:
  """The most frequent characters, sorted, and a warning about the others."""
  chars = Counter()
  for word, count in counts.items():
    for char in word:
      chars[char] += count
  known = [char for char, _ in chars.most_common(most)]
  if len(chars) > most:
    share = 1 - sum(chars[char] for char in known) / chars.total()
    logging.warning(
      "--max_alphabet=%d leaves out %d rare characters (%.3g%% of the text):"
      " words that contain one become [UNK]",
      most,
      len(chars) - most,
      100 * share,
    )
  return sorted(known)


def learn(
  counts: Counter,
  reserved: list[str],
  chars: list[str],
  vocab_size: int,
  min_count: int,
) -> list[str]:
  """Learns a vocabulary.

  Args:
    counts: how often each word occurs.
    reserved: tokens that come first.
    chars: the alphabet; each is a token, and so is each with "##" before it.
    vocab_size: the number of tokens; fewer if the text does not yield more.
    min_count: words that are rarer are left out.

  Returns:
    The tokens in the order of their ids.

  Raises:
    ValueError: vocab_size has no room for the alphabet.
  """
  fixed = reserved + chars + [JOINER + char for char in chars]
  if len(fixed) > vocab_size:
    raise ValueError(
      f"--vocab_size={vocab_size} has no room for {len(reserved)} reserved"
      f" tokens and {len(chars)} characters, with and without {JOINER}: give at"
      f" least {len(fixed)}, or a smaller --max_alphabet"
    )
  words = _teachable(counts, set(chars), min_count)
  tokens = dict.fromkeys(fixed)
  tokens.update(dict.fromkeys(_learned(words, reserved, chars, vocab_size)))
  # The learner stops a little short of vocab_size: words fill the rest.
  tokens.update(dict.fromkeys(word for word, _ in words.most_common()))
  return list(tokens)[:vocab_size]


def _teachable(counts, chars, min_count):
  return Counter(
    {
      word: count
      for word, count in counts.items()
      if count >= min_count
      and len(word) <= LONGEST_TOKEN
      and chars.issuperset(word)
    }
  )


def _learned(words, reserved, chars, vocab_size):
  """What tensorflow_text makes of the words, the most frequent first."""
  # Takes seconds to import, and is the first to need TensorFlow.
  from tensorflow_text.tools.wordpiece_vocab import (  # noqa: PLC0415
    wordpiece_tokenizer_learner_lib as learner,
  )

  alphabet_once = Counter(chars)  # Known even if only rare words have them.
  return learner.learn(
    (alphabet_once | words).items(),
    vocab_size,
    reserved,
    upper_thresh=None,
    lower_thresh=None,
    max_input_tokens=-1,
    max_token_length=LONGEST_TOKEN,
    max_unique_chars=len(chars),
    joiner=JOINER,
  )
