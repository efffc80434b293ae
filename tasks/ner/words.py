"""Splits raw text into the words that files of tags have.

BERT splits a text at blanks, around punctuation and around Chinese characters.
Files such as CoNLL-2003's have larger words (German-born, U.S., Mr., 3.5) and
separate clitics (IBM 's, do n't).
"""

import functools
import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate, pairwise

from data import tokenization

# A character for each kind, by category or the category's first letter. "à"
# stands for all other letters. Printable ASCII stands for itself.
_KINDS = {"Lu": "À", "N": "٠", "M": "ʰ", "S": "☺", "Sc": "€", "P": "§"}
_KINDS |= dict.fromkeys("’ʼ", "'") | dict.fromkeys("‐‑–", "-")
_CLITIC = r"'(?i:s|m|d|re|ve|ll)(?!\w)"
_PART = r"(?:(?!(?i:n't)(?!\w))[^\W_])+"
_WORD = re.compile(
  rf"""
  (?:https?://|www\.)[!#-;=?-~\w]*[\w/]  # an address
  | [\w.+-]{{1,64}}+@[\w-]+(?:\.\w+)+  # of e-mail
  | (?:@|\#(?!\d+\b))\w+ | {_CLITIC} | (?i:n't)(?!\w)  # @ann, #topic, 's
  | (?=\w{{1,7}}\.)(?:  # abbreviations, but not at the end of the text
      (?i:mr|mrs|ms|dr|prof|rev|hon|fr|hr|st|mt|ft|sr|jr|gen|col|capt|lt|sgt|maj
      |gov|sen|rep|pres|inc|corp|co|ltd|bros|univ|dept|ave|blvd|vs?|al|etc|cf|ca
      |approx|bzw|usw|mio|mrd|str)
      | [A-HJ-ZÀ]ʰ?(?=\.[ ])
    )\.(?![ "')\]]*\Z|-\w)
  | (?i:nos?|nr|vol|fig|pp?|op|art|abs|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov
    |dec)\.(?=[ ]*\d)
  | (?:(?<=\b[Dd](?:er|ie|as|em|en|es)[ ])|(?<=\b[Ii]m[ ]))\d\d?\.(?=[ ]\w)
  | \d\d?\.(?=[ ](?:[a-zà]|J[aàu]n|Feb|M[aà]|Apr|Jul|Aug|Sep|Okt|Nov|Dez|Jahrh))
  | (?:[A-Z]{{0,3}}[$€](?=\d))? {_PART} (?:(?:
      \.?[-_&](?=\w) | '(?=[^\W\d_])(?!{_CLITIC[1:]}) | (?<=\d)[.,:/](?=\d)
      | \.(?=[a-zà\d]) | (?<=\b[^\W\d_])\.(?=\w) | \.(?=[^\W\d_]\.)
    ) {_PART})* (?:
      (?<=\.[^\W\d_])\. | (?<=\.[A-Z]\w)\. | \.(?=[,;:])  # U.S., Ph.D.
      | \++(?!\w) | % | -(?=,|[ ](?:und|oder|and|or|to)\b)  # C++, Haupt- und
    )?
  | ☺[☺ʰ]* | ([-.!?*=~'`_])\1*ʰ* | [^ ]ʰ*
  """,
  re.VERBOSE,
)


def split(text: str | Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
  """Text, and begin and end of each word. Blanks join a list of words."""
  if not isinstance(text, str):
    starts = accumulate((len(word) + 1 for word in text), initial=0)
    return " ".join(text), [(begin, end - 1) for begin, end in pairwise(starts)]
  kinds = "".join(map(_kind, text))
  return text, [word.span() for word in _WORD.finditer(kinds)]


@functools.cache
def _kind(char: str) -> str:
  if " " < char < "\x7f":
    return char
  if char.isspace() or tokenization.is_cjk(char):
    return " " if char.isspace() else "、"
  is_removed = tokenization.is_removed(char)
  category = "M" if is_removed else unicodedata.category(char)
  names = (char, category, category[0])
  return next((_KINDS[name] for name in names if name in _KINDS), "à")
