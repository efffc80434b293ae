"""Warnings of texts, vocabulary and --do_lower_case that do not go together.

Lower-casing decomposes text (NFD) and drops non-spacing marks, such as accents
of Latin letters. In other scripts this removes letters: Hangul syllables become
Jamo, and vowels of Thai, Devanagari and others are non-spacing marks.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from absl import logging

from data.tokenization import BasicTokenizer, FullTokenizer, strip_accents
from data.vocab import UNK

# Scripts whose accents an uncased model is meant to lose.
_ACCENTED = ("LATIN", "GREEK", "CYRILLIC", "ARABIC", "HEBREW")
_IGNORED = "?"  # script of letters that are not counted
_MIN_FRACTION = 0.1  # of the letters of a text; fewer are foreign words
_MIN_CHANGED = 0.01  # of the letters of a script; fewer are rare signs
_SPECIAL = re.compile(r"\[\w+\]")
# Maximum fraction of tokens with capitals or accents in a lower-cased
# vocabulary; released cased ones have a third or more.
_MAX_CASED = 0.05
# Minimum number of tokens with ASCII letters to judge the case by. With fewer,
# as in a Korean vocabulary, `warn_of_unknown` judges by the texts.
_MIN_WORDS = 50
_MAX_UNKNOWN = 0.1  # fraction of the words of a text
_TEXTS = 1000
_FILES = 20
_CHARACTERS = 200_000

# Scripts that this process has warned of: one warning, not one for each file.
_WARNED = set()


def warn_of_case(ids: Mapping[str, int], lower_case: bool, name: str) -> None:
  """Logs the result of `doubt_case` as a warning, once."""
  if doubt := doubt_case(ids, lower_case):
    text = f"--do_lower_case={lower_case}, but {name} {doubt}"
    logging.log_first_n(logging.WARNING, "%s", 1, text)


def doubt_case(ids: Mapping[str, int], lower_case: bool) -> str | None:
  """Compares the case of a vocabulary with --do_lower_case.

  Returns:
    The predicate of a sentence about the file, with a remedy; None if they
    seem to agree.
  """
  words = [token for token in ids if not _SPECIAL.fullmatch(token)]
  if lower_case:
    lost = [word for word in words if strip_accents(word.lower()) != word]
    if len(lost) <= _MAX_CASED * len(words):
      return None
    return (
      f"has {len(lost)} of {len(words)} tokens with capitals or accents, which "
      f"no text gives then ({', '.join(lost[:3])}): --do_lower_case=False is "
      "for such a vocabulary"
    )
  plain = [word for word in words if re.search("[A-Za-z]", word)]
  if len(plain) < _MIN_WORDS or any(word != word.lower() for word in words):
    return None
  return (
    "has no token with a capital letter, so that words with one are unknown: "
    "--do_lower_case=True is for such a vocabulary"
  )


def warn_of_texts(
  texts: Iterable[str | None], tokenizer: FullTokenizer, name: str
) -> None:
  """Warns of scripts and of unknown words in a sample of texts.

  Args:
    texts: a sample; None is no text.
    tokenizer: the texts' tokenizer.
    name: of the file or files.
  """
  texts = list(filter(None, texts))
  lower_case = tokenizer.basic_tokenizer.do_lower_case
  warn_of_scripts(texts, lower_case, name, tokenizer.vocab)
  warn_of_unknown(texts, tokenizer, name)


def warn_of_examples(
  texts: Callable[[Any], Iterable[str | None]],
  examples: Sequence[Any],
  tokenizer: FullTokenizer,
  name: str,
) -> None:
  """Calls `warn_of_texts` for `texts(example)` of a sample of examples."""
  some = chain.from_iterable(map(texts, _spread(examples, _TEXTS)))
  warn_of_texts(some, tokenizer, name)


def sample(
  paths: Sequence[str], read: Callable[[str], Iterable[str]]
) -> Iterable[str]:
  """The first lines, `read(path)`, of some files of a corpus."""
  some = _spread(paths, _FILES)
  first = (islice(read(path), _TEXTS // len(some)) for path in some)
  return chain.from_iterable(first)


def _spread(items, number):
  """Selects about `number` evenly spaced items of a sequence."""
  return items[:: -(-len(items) // number) or 1]


class AffectedScript(NamedTuple):
  """A script of a text that lower-casing changes.

  Attributes:
    fraction: fraction of the text's letters that are of the script.
    letters: letters of the text that change.
    word: example of a word that changes.
  """

  script: str
  fraction: float
  letters: Container[str]
  word: str


def affected_scripts(texts: Iterable[str]) -> list[AffectedScript]:
  """Finds the scripts of texts that lower-casing changes.

  Args:
    texts: the first 200,000 characters are used.

  Returns:
    Scripts of at least a tenth of the letters, the most frequent first.
  """
  characters, words = Counter(), {}
  for text in texts:
    characters.update(text)
    words |= dict.fromkeys(text.split())
    if characters.total() > _CHARACTERS:
      break
  letters = {
    char: number
    for char, number in characters.items()
    if unicodedata.category(char)[0] in "LM"
  }
  by_script = Counter()
  for char, number in letters.items():
    by_script[_script(char)] += number
  total = sum(letters.values())
  result = []
  for script, number in by_script.most_common():
    if script == _IGNORED or number < _MIN_FRACTION * total:
      continue
    changed = {
      char
      for char in letters
      if _script(char) == script and strip_accents(char) != char
    }
    if sum(letters[char] for char in changed) < _MIN_CHANGED * number:
      continue
    example = _example(words, changed)
    result.append(
      AffectedScript(script.title(), number / total, changed, example)
    )
  return result


def warn_of_scripts(
  texts: Iterable[str],
  do_lower_case: bool,
  name: str,
  vocabulary: Iterable[str] | None = None,
) -> None:
  """Logs a warning, once for each script, if lower-casing corrupts texts.

  Args:
    texts: a sample; see `affected_scripts`.
    do_lower_case: the flag; nothing is checked without it.
    name: of the file or files.
    vocabulary: its tokens; None if it is yet to be learned.
  """
  for affected in affected_scripts(texts) if do_lower_case else ():
    if affected.script in _WARNED:
      continue
    _WARNED.add(affected.script)
    logging.warning(
      "%s: %.0f %% of the letters are %s, %s; %s; see docs/languages.md",
      name,
      100 * affected.fraction,
      affected.script,
      _effect(affected),
      _remedy(affected, vocabulary),
    )


def _example(words, changed):
  """Shortest word with a letter that changes, cut to 12 characters."""
  word = min((word for word in words if changed & set(word)), key=len)
  first = next(i for i, char in enumerate(word) if char in changed)
  return word[max(0, first - 4) : first + 8]


def _effect(affected):
  word = affected.word
  lower = strip_accents(word)
  if affected.script == "Hangul":
    return (
      "which --do_lower_case=True splits into Jamo "
      f"({word!r}, {len(word)} characters, becomes {len(lower)})"
    )
  return (
    "which loses vowels or other signs with --do_lower_case=True "
    f"({word!r} becomes {lower!r})"
  )


def _remedy(affected, vocabulary):
  if vocabulary is None:
    return (
      "give --do_lower_case=False, here and to every program that uses the "
      "vocabulary"
    )
  if any(char in affected.letters for token in vocabulary for char in token):
    return "give --do_lower_case=False: the vocabulary has such letters"
  return (
    "learn a vocabulary with build_vocab.py --do_lower_case=False, or take a "
    "cased model that knows the language, with --do_lower_case=False"
  )


def _script(char: str) -> str:
  """First word of the character's name, as in "HANGUL SYLLABLE GA".

  Hiragana and Katakana count as one script. Scripts that may lose accents are
  _IGNORED.
  """
  first = unicodedata.name(char, _IGNORED).split()[0].split("-")[0]
  if first in ("HIRAGANA", "KATAKANA"):
    return "KANA"
  return _IGNORED if first in _ACCENTED else first


def warn_of_unknown(texts, tokenizer, name) -> None:
  """Logs a warning if many words of a sample become [UNK], once in a process.

  The first 200,000 characters are used.
  """
  words, characters = Counter(), 0
  for text in texts:
    words.update(text.split())
    characters += len(text)
    if characters > _CHARACTERS:
      break
  lower_case = tokenizer.basic_tokenizer.do_lower_case
  fraction, example = _unknown(words, tokenizer, lower_case)
  if fraction < _MAX_UNKNOWN:
    return
  remedy = (
    "the vocabulary has no pieces for them: take a model that knows the "
    "language, or learn a vocabulary with build_vocab.py"
  )
  other, _ = _unknown(words, tokenizer, not lower_case)
  if other < fraction / 2:
    remedy = (
      f"with --do_lower_case={not lower_case} it would be {100 * other:.0f} %"
    )
  logging.log_first_n(
    logging.WARNING,
    "%s: %.0f %% of the words become %s, such as %r; %s",
    1,
    *(name, 100 * fraction, UNK, example, remedy),
  )


def _unknown(words, tokenizer, lower_case) -> tuple[float, str]:
  """Fraction of words that become [UNK], and the most frequent of them."""
  split = BasicTokenizer(lower_case).tokenize
  total, unknown = 0, Counter()
  for text, number in words.items():
    for word in split(text):
      total += number
      if tokenizer.wordpiece_tokenizer.tokenize(word) == [UNK]:
        unknown[word] += number
  [(example, _)] = unknown.most_common(1) or [("", 0)]
  return unknown.total() / max(total, 1), example
