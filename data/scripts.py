"""Warnings of text that --do_lower_case corrupts.

Lower-casing decomposes text (NFD) and drops non-spacing marks, such as accents
of Latin letters. In other scripts this removes letters: Hangul syllables become
Jamo, and vowels of Thai, Devanagari and others are non-spacing marks.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from absl import logging

from data import vocab_checks
from data.tokenization import FullTokenizer, strip_accents

# Scripts whose accents an uncased model is meant to lose.
_ACCENTED = ("LATIN", "GREEK", "CYRILLIC", "ARABIC", "HEBREW")
_IGNORED = "?"  # script of letters that are not counted
_MIN_FRACTION = 0.1  # of the letters of a text; fewer are foreign words
_MIN_CHANGED = 0.01  # of the letters of a script; fewer are rare signs
_TEXTS = 1000
_FILES = 20
_CHARACTERS = 200_000

# Scripts that this process has warned of: one warning, not one for each file.
_WARNED = set()


class AffectedScript(NamedTuple):
  """A script of a text that lower-casing changes.

  Attributes:
    script: its name, such as "Thai".
    fraction: fraction of the text's letters that are of the script.
    letters: letters of the text that change.
    word: example of a word that changes.
  """

  script: str
  fraction: float
  letters: Container[str]
  word: str


def spread(items: Sequence[Any], number: int = _TEXTS) -> Sequence[Any]:
  """Selects about `number` evenly spaced items of a sequence."""
  return items[:: -(-len(items) // number) or 1]


def sample(
  paths: Sequence[str], read: Callable[[str], Iterable[str]]
) -> Iterable[str]:
  """The first lines of some files of a corpus, for `warn`.

  Args:
    paths: the files.
    read: function from a path to lines.
  """
  some = spread(paths, _FILES)
  first = (islice(read(path), _TEXTS // len(some)) for path in some)
  return chain.from_iterable(first)


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
    char: n for char, n in characters.items() if _category(char) in "LM"
  }
  by_script = Counter()
  for char, number in letters.items():
    by_script[_script(char)] += number
  total = sum(letters.values())
  result = []
  for script, number in by_script.most_common():
    changed = {
      char
      for char in letters
      if _script(char) == script and strip_accents(char) != char
    }
    affected = sum(letters[char] for char in changed)
    if (
      script == _IGNORED
      or number < _MIN_FRACTION * total
      or affected < _MIN_CHANGED * number
    ):
      continue
    example = _example(words, changed)
    result.append(
      AffectedScript(script.title(), number / total, changed, example)
    )
  return result


def warn(
  texts: Iterable[str],
  do_lower_case: bool,
  name: str,
  vocabulary: Iterable[str] | None = None,
) -> None:
  """Logs a warning if lower-casing corrupts the script of texts.

  Each script is warned of once in a process.

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


def warn_of_texts(
  texts: Iterable[str | None], tokenizer: FullTokenizer, name: str
) -> None:
  """Calls `warn` and vocab_checks.warn_of_unknown for a sample of texts.

  Args:
    texts: a sample; None is no text.
    tokenizer: the texts' tokenizer.
    name: of the file or files.
  """
  texts = list(filter(None, texts))
  lower_case = tokenizer.basic_tokenizer.do_lower_case
  warn(texts, lower_case, name, tokenizer.vocab)
  vocab_checks.warn_of_unknown(texts, tokenizer, name)


def warn_of_examples(
  texts: Callable[[Any], Iterable[str | None]],
  examples: Sequence[Any],
  tokenizer: FullTokenizer,
  name: str,
) -> None:
  """Calls `warn_of_texts` for `texts(example)` of a sample of examples."""
  some = chain.from_iterable(map(texts, spread(examples)))
  warn_of_texts(some, tokenizer, name)


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


def _category(char: str) -> str:
  return unicodedata.category(char)[0]


def _script(char: str) -> str:
  """First word of the character's name, as in "HANGUL SYLLABLE GA".

  Hiragana and Katakana count as one script. Scripts that may lose accents are
  _IGNORED.
  """
  first = unicodedata.name(char, _IGNORED).split()[0].split("-")[0]
  if first in ("HIRAGANA", "KATAKANA"):
    return "KANA"
  return _IGNORED if first in _ACCENTED else first
