"""Prose as it is found, cut into the sentences that pre-training wants.

A rule and no model: it needs nothing to be installed, does the same everywhere
and is right for ordinary prose in languages that end a sentence with . ! or ?
"""

import re
from collections.abc import Iterable, Iterator

# An end: a mark, closing quotes or brackets, blanks, then what can begin a
# sentence: an upper-case letter, a digit, an opening quote or bracket. A run of
# marks is gone through once, from its first on, however long it is.
_END = re.compile(
  r"""(?<![.!?…])(?P<mark>[.!?…]++)['"”’»)\]]*+\s++"""
  r"""(?=['"“‘«(\[¿¡—-]*+[^\W_a-zß-öø-ÿ])"""
)
# Before a word. No abbreviation is longer than that.
_BORDER = re.compile(r"""[\s(\["'“‘]""")
_LONGEST_ABBREVIATION = 10
# After these a full stop ends no sentence (lower-cased, without the stop).
_ABBREVIATIONS = frozenset(
  (
    *(
      "mr",
      "mrs",
      "ms",
      "messrs",
      "mt",
      "dr",
      "prof",
      "rev",
      "hon",
      "st",
      "sr",
    ),
    *("jr", "gen", "col", "capt", "lieut", "lt", "sgt", "maj", "gov", "pres"),
    *("esq", "ed", "eds", "vs", "etc", "e.g", "i.e", "cf", "al", "viz"),
    *("fig", "vol", "no", "nos", "p", "pp", "ch", "sec"),
  )
)


def paragraphs(lines: Iterable[str]) -> Iterator[str]:
  """Joins lines up to the next blank one into one string."""
  held = []
  for line in lines:
    if line.strip():
      held.append(line.strip())
    elif held:
      yield " ".join(held)
      held = []
  if held:
    yield " ".join(held)


def split(paragraph: str) -> list[str]:
  """Cuts a paragraph into sentences.

  Args:
    paragraph: running text; blanks of any kind and number between words.

  Returns:
    The sentences in order, none of them empty. Joined by single blanks they
    are the paragraph again, its blanks made single.
  """
  text = " ".join(paragraph.split())
  sentences, begin = [], 0
  for end in _END.finditer(text):
    near = max(begin, end.start() - _LONGEST_ABBREVIATION)
    if end["mark"] == "." and _is_abbreviation(text[near : end.start()]):
      continue
    sentences.append(text[begin : end.end()].rstrip())
    begin = end.end()
  sentences.append(text[begin:])
  return [sentence for sentence in sentences if sentence]


def _is_abbreviation(before: str) -> bool:
  """Whether the word that a full stop follows is short for another."""
  word = _BORDER.split(before)[-1].lower()
  initial = len(word) == 1 and word.isalpha() and word not in "i"
  return initial or word in _ABBREVIATIONS
