"""Warns of texts that do not fit a vocabulary. A warning appears only once.

Lower-casing decomposes text (NFD) and drops non-spacing marks: Hangul syllables
become Jamo; Thai, Devanagari and others lose vowels.
"""

import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Any

from absl import logging

from data.tokenization import strip_accents
from data.vocab import Tokenizer
from storage import files, setting

# Scripts whose accents an uncased model is meant to lose.
_ACCENTED = ("LATIN", "GREEK", "CYRILLIC", "ARABIC", "HEBREW", "COMBINING")
_MAX_CHANGED = 0.25  # fraction of the words; fewer are foreign words
_MAX_UNKNOWN = 0.1  # fraction of the words
_TEXTS, _CHARACTERS = 1000, 200_000  # limits of a sample


def sample(
  paths: Sequence[str], read: Callable[[str], Iterable[str]]
) -> list[str]:
  """Reads the first 1,000 lines of files, with a blank line after each file.

  Leaves out pipes, which can be read only once.
  """
  lines: list[str] = []
  for path in paths:
    if files.is_remote(path) or os.path.isfile(path):
      lines += [*islice(read(path), _TEXTS - len(lines)), ""]
    if len(lines) >= _TEXTS:
      break
  return lines[:_TEXTS]


def warn_of_examples(
  texts: Callable[[Any], Iterable[str | None]],
  examples: Sequence[Any],
  tokenizer: Tokenizer,
  name: str,
) -> None:
  """Calls `warn_of_texts` with `texts(example)` for the first examples."""
  some = map(texts, islice(examples, _TEXTS))
  warn_of_texts(chain.from_iterable(some), tokenizer, name)


def warn_of_texts(
  texts: Iterable[str | None], tokenizer: Tokenizer, name: str
) -> None:
  """Warns of a script that lower-casing damages, and of many unknown words."""
  text = " ".join(filter(None, texts))[:_CHARACTERS]
  if tokenizer.do_lower_case:
    warn_of_scripts([text], name)
  counts = Counter(tokenizer.words(text))
  unknown = [tokenizer.special.unknown]
  lost = {w: n for w, n in counts.items() if tokenizer.tokenize(w) == unknown}
  fraction = sum(lost.values()) / max(counts.total(), 1)
  if fraction >= _MAX_UNKNOWN:
    logging.log_first_n(
      logging.WARNING,
      f"{name}: {100 * fraction:.0f} % of the words become {unknown[0]}, such "
      f"as {max(lost, key=lost.__getitem__)!r}; check "
      f"{setting('do_lower_case')}, convert decomposed text (NFD) to NFC, or "
      "take a vocabulary that knows the language; see docs/languages.md",
      1,
    )


def warn_of_scripts(texts: Iterable[str], name: str) -> None:
  """Warns if lower-casing damages a quarter of the words."""
  text = " ".join(texts)[:_CHARACTERS]
  letters = {  # that change, although their script has no accents
    char
    for char in set(text)
    if strip_accents(char) != char
    # A character's name begins with the script.
    and not unicodedata.name(char, "LATIN").startswith(_ACCENTED)
  }
  words = Counter(text.split())
  changed = {w: n for w, n in words.items() if not letters.isdisjoint(w)}
  fraction = sum(changed.values()) / max(words.total(), 1)
  if fraction >= _MAX_CHANGED:
    logging.log_first_n(
      logging.WARNING,
      f"{name}: {setting('do_lower_case', True)} damages "
      f"{100 * fraction:.0f} % of the words, such as "
      f"{min(changed, key=len)[:12]!r}: it splits Hangul into Jamo, and drops "
      f"vowel signs. Give {setting('do_lower_case', False)}, here and to every "
      "program that uses the vocabulary; see docs/languages.md",
      1,
    )
