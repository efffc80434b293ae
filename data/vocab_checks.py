"""Warnings of texts that do not fit the vocabulary, case or --max_seq_length.

Lower-casing decomposes text (NFD) and drops non-spacing marks. In some scripts
this removes letters: Hangul syllables become Jamo, and vowels of Thai,
Devanagari and others are non-spacing marks.
"""

import functools
import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from absl import logging

from data.tokenization import BasicTokenizer, FullTokenizer, strip_accents
from data.vocab import UNK
from storage import files
from storage.progress import number_of

# Scripts whose accents an uncased model is meant to lose.
_ACCENTED = ("LATIN", "GREEK", "CYRILLIC", "ARABIC", "HEBREW", "COMBINING")
_IGNORED = "?"  # script of letters that lower-casing may change
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
_FITS = 0.99  # of the texts, for a length to be suggested
_LENGTHS = (16, 32, 64, 128, 256, 384, 512)

# Scripts that this process has warned of: one warning, not one for each file.
_WARNED = {_IGNORED}


def warn_of_case(ids: Mapping[str, int], lower_case: bool, name: str) -> None:
  """Logs the result of `doubt_case` as a warning, once."""
  if doubt := doubt_case(ids, lower_case):
    text = f"--do_lower_case={lower_case}, but {name} {doubt}"
    logging.log_first_n(logging.WARNING, text, 1)


def doubt_case(ids: Mapping[str, int], lower_case: bool) -> str | None:
  """Predicate of a sentence about a vocabulary of the other case, or None."""
  words = [token for token in ids if not _SPECIAL.fullmatch(token)]
  if lower_case:
    lost = [word for word in words if strip_accents(word.lower()) != word]
    if len(lost) <= _MAX_CASED * len(words):
      return None
    return (
      f"has {len(lost)} of {len(words)} tokens with capitals or accents "
      f"({', '.join(lost[:3])}): give --do_lower_case=False"
    )
  plain = [word for word in words if re.search("[A-Za-z]", word)]
  if len(plain) < _MIN_WORDS or any(word != word.lower() for word in words):
    return None
  return (
    "has no token with a capital letter, so that words with one are unknown: "
    "give --do_lower_case=True"
  )


def sample(
  paths: Sequence[str], read: Callable[[str], Iterable[str]]
) -> Iterable[str]:
  """The first lines of some files, not pipes; a blank line ends each file."""
  regular = [p for p in paths if files.is_remote(p) or os.path.isfile(p)]
  some = _spread(regular, _FILES)
  number = _TEXTS // max(len(some), 1)
  first = (islice(chain(read(path), [""]), number) for path in some)
  return chain.from_iterable(first)


def _spread(items, number):
  """Selects about `number` evenly spaced items of a sequence."""
  return items[:: max(1, -(-len(items) // number))]


def warn_of_examples(
  texts: Callable[[Any], Iterable[str | None]],
  examples: Sequence[Any],
  tokenizer: FullTokenizer,
  name: str,
) -> None:
  """Calls `warn_of_texts` for `texts(example)` of a sample of examples."""
  some = chain.from_iterable(map(texts, _spread(examples, _TEXTS)))
  warn_of_texts(some, tokenizer, name)


def warn_of_texts(
  texts: Iterable[str | None], tokenizer: FullTokenizer, name: str
) -> None:
  """Warns of scripts and of unknown words in a sample of texts, or None."""
  present = [text for text in texts if text]
  if tokenizer.basic_tokenizer.do_lower_case:
    warn_of_scripts(present, name, tokenizer.vocab)
  warn_of_unknown(present, tokenizer, name)


def _count_words(texts) -> Counter:
  """Counts text between blanks, in the first 200,000 characters."""
  words: Counter[str] = Counter()
  characters = 0
  for text in texts:
    words.update(text.split())
    characters += len(text)
    if characters > _CHARACTERS:
      break
  return words


def warn_of_scripts(
  texts: Iterable[str], name: str, vocabulary: Iterable[str] | None = None
) -> None:
  """Warns, once for each script, if --do_lower_case=True corrupts texts."""
  words = _count_words(texts)
  scripts: defaultdict[str, Counter] = defaultdict(Counter)  # letters by script
  for word, number in words.items():
    for char in word:
      if unicodedata.category(char)[0] in "LM":
        scripts[_script(char)][char] += number
  total = sum(letters.total() for letters in scripts.values())
  for script, letters in scripts.items():
    number = letters.total()
    changed = {char for char in letters if strip_accents(char) != char}
    lost = sum(letters[char] for char in changed)
    if (
      script not in _WARNED
      and number >= _MIN_FRACTION * total
      and lost >= _MIN_CHANGED * number
    ):
      _WARNED.add(script)
      logging.warning(
        f"{name}: {100 * number / total:.0f} % of the letters are "
        f"{script.title()}, {_effect(script, words, changed)}; "
        f"{_remedy(changed, vocabulary)}; see docs/languages.md"
      )


@functools.cache
def _script(char: str) -> str:
  """First word of the character's name, _IGNORED if it may lose accents."""
  first = unicodedata.name(char, _IGNORED).split()[0].split("-")[0]
  if first in ("HIRAGANA", "KATAKANA"):
    return "KANA"
  return _IGNORED if first in _ACCENTED else first


def _effect(script, words, changed):
  """Relative clause with the shortest word that changes, cut to 12 letters."""
  word = min((word for word in words if changed & set(word)), key=len)
  first = next(i for i, char in enumerate(word) if char in changed)
  word = word[max(0, first - 4) : first + 8]
  lower = strip_accents(word)
  if script == "HANGUL":
    return (
      "which --do_lower_case=True splits into Jamo "
      f"({word!r}, {number_of(len(word), 'character')}, becomes {len(lower)})"
    )
  return (
    "which loses vowels or other signs with --do_lower_case=True "
    f"({word!r} becomes {lower!r})"
  )


def _remedy(changed, vocabulary):
  if vocabulary is None:
    return (
      "give --do_lower_case=False, here and to every program that uses the "
      "vocabulary"
    )
  if any(char in changed for token in vocabulary for char in token):
    return "give --do_lower_case=False: the vocabulary has such letters"
  return (
    "learn a vocabulary with build_vocab.py --do_lower_case=False, or take a "
    "cased model that knows the language, with --do_lower_case=False"
  )


def warn_of_decomposed(texts: Iterable[str], name: str) -> None:
  """Warns if a tenth of the words of a sample of texts are in NFD."""
  words = _count_words(texts)
  number = sum(
    count
    for word, count in words.items()
    if len(unicodedata.normalize("NFC", word)) < len(word)
  )
  if number > _MAX_UNKNOWN * words.total():
    logging.warning(
      f"{name}: {100 * number / words.total():.0f} % of the words are "
      "decomposed (NFD); to a vocabulary of them usual texts (NFC) are "
      "unknown: convert the text, see docs/languages.md"
    )


def warn_of_unknown(
  texts: Sequence[str], tokenizer: FullTokenizer, name: str
) -> None:
  """Warns if many words of a sample become [UNK], once in a process."""
  words = _count_words(texts)
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
  composed = _count_words(unicodedata.normalize("NFC", t) for t in texts)
  other, _ = _unknown(composed, tokenizer, lower_case)
  if other < fraction / 2:
    remedy = (
      "they are decomposed (NFD); composed (NFC) it would be "
      f"{100 * other:.0f} %: convert the text, see docs/languages.md"
    )
  text = (
    f"{name}: {100 * fraction:.0f} % of the words become {UNK}, such as "
    f"{example!r}; {remedy}"
  )
  logging.log_first_n(logging.WARNING, text, 1)


def _unknown(words, tokenizer, lower_case) -> tuple[float, str]:
  """Fraction of words that become [UNK], and the most frequent of them."""
  split = BasicTokenizer(lower_case).tokenize
  counts: Counter[str] = Counter()
  for text, number in words.items():
    for word in split(text):
      counts[word] += number
  pieces = tokenizer.wordpiece_tokenizer.tokenize
  unknown = Counter({w: n for w, n in counts.items() if pieces(w) == [UNK]})
  [(example, _)] = unknown.most_common(1) or [("", 0)]
  return unknown.total() / max(counts.total(), 1), example


def log_lengths(
  name: str,
  lengths: Mapping[int, int],
  max_length: int,
  effect: str = "their ends are cut off",
  flag: str = "max_seq_length",
) -> None:
  """Logs the number of texts longer than a `flag` says, and the `effect`.

  It is a warning from 5 % of the texts. `lengths` counts texts by their tokens.
  """

  def longer_than(limit):
    return sum(n for length, n in lengths.items() if length > limit)

  total, longer = sum(lengths.values()), longer_than(max_length)
  if not longer:
    return
  larger = [n for n in _LENGTHS if n > max_length and longer_than(n) < longer]
  advice = ""
  if larger:
    fitting = [n for n in larger if longer_than(n) <= (1 - _FITS) * total]
    best = min(*fitting, larger[-1], max(lengths))
    held = 100 * (1 - longer_than(best) / total)
    advice = f"; --{flag}={best} would hold {held:.1f} %"
  logging.log(
    logging.WARNING if longer >= 0.05 * total else logging.INFO,
    f"{name}: --{flag}={max_length} is exceeded by {longer:,} of "
    f"{number_of(total, 'text')} ({100 * longer / total:.1f} %): {effect}; the "
    f"longest has {max(lengths):,} tokens{advice}",
  )
