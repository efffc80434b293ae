"""Splits prose in any script into sentences, at sentence marks.

sentences.txt has the marks and abbreviations of each language.
"""

import re
from collections import defaultdict
from pathlib import Path

_WORDS: defaultdict[str, set[str]] = defaultdict(set)
for _line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
  _WORDS[_line.split()[0]].update(_line.partition(": ")[2].split())
_PAIRS = tuple(_WORDS["pair"])

# Marks that end a sentence only before a blank or a Chinese or Japanese word.
_WESTERN = ".!?…‼⁇⁈⁉‽"
# Character sets of a regular expression.
MARKS = _WESTERN + "".join(sorted(_WORDS["mark"]))
CLOSING = """'"*”’)\\]}_」』）】》〉〕］｝〞"""
_OPENING = """'"#@*•“‘„‚(\\[{¿¡_「『（【《〈〔［｛〝»›«‹—–-"""
# Marks, closing quotes or brackets, blank, opening quotes, and the next word.
# Possessive quantifiers scan a run once, in linear time.
_END = re.compile(
  rf"""(?P<marks>[{MARKS}](?<![{MARKS}].)(?<![0-9０-９]．)[{MARKS}]*+)
  (?P<closing>(?:[{CLOSING}]|[«‹“‘](?!\w)|\ ?[»›](?!\w)|\[\w{{1,12}}\])*+)
  (?P<blank>\ ?)(?=(?:[—–•*«‹-]\ |[{_OPENING}])*+(?P<word>\w{{0,12}}+))""",
  re.VERBOSE,
)
_TOKEN_START = re.compile(r"""[\s(\["“„«»¿¡—–]""")
_CONSONANT = "[bcdfghjklmnpqrstvwxzčšžłśćźř]"
# Initials, and words without a vowel, such as Dr. and Nr.
_SHORT = re.compile(
  r"(?!I$)[^\W\d_\u1100-\U0010ffff]|(?:[^\W\d_]{1,2}\.-?)+[^\W\d_]{1,3}"
  rf"|(?i:{_CONSONANT}){_CONSONANT}{{1,4}}"
)
_HEADING = re.compile(r"\d{1,2}(?:\.\d{1,2})*|(?!I)[^\W\d_]")  # 1.2., a.
# Dates, such as 2024. 3. 15. and 3. 5. 1999, and German: im 19. Jahrhundert
_ORDINAL = re.compile(
  r"\d\. \d{1,2}$|(?i:\b(?:im|vom|zum|de[rmns]|die|das)) \d{1,3}$"
)


def split_sentences(paragraph: str) -> list[str]:
  """Splits a paragraph into sentences. White space becomes single spaces."""
  lines = paragraph.lstrip("\ufeff").splitlines()  # no byte order mark
  # To split all lines at once would take ten times the memory of the text.
  text = " ".join(map(" ".join, filter(None, map(str.split, lines))))
  sentences, begin, is_lower = [], 0, text.islower()
  for end in _END.finditer(text):
    if _is_end(text, begin, end, is_lower):
      sentences.append(text[begin : end.start("blank")])
      begin = end.end()
  sentences.append(text[begin:])
  return [sentence for sentence in sentences if sentence]


def _is_end(text: str, begin: int, end: re.Match, is_lower: bool) -> bool:
  """True if `end`, a match of marks, is the end of the sentence from `begin`.

  If `is_lower`, the text has no capitals.
  """
  marks, closing, blank, word = end.groups()
  first = word[:1]
  following = text[end.end() : end.end() + 1]
  if closing and "ぁ" <= following <= "ゖ":
    return False  # 「はい。」と
  if marks.strip(_WESTERN):
    return not following or following not in "、，；：,;:"
  if not blank:
    return marks[-1] in "!?" and "\u2e80" <= first <= "鿿"
  may_begin = not first.islower()
  if is_lower:
    may_begin = not (closing or marks.endswith(("..", "…")))
  if not first.isalnum() or not may_begin:
    return False
  return marks != "." or not _goes_on(text, begin, end)


def _goes_on(text: str, begin: int, stop: re.Match) -> bool:
  """True if a full stop belongs to a number or an abbreviation."""
  head = text[max(begin, stop.start() - 20) : stop.start()]
  token = _TOKEN_START.split(head)[-1].lstrip("'‘_")
  lower, word = token.lower(), stop["word"]
  is_number = head[-1:].isdigit() and bool(
    _ORDINAL.search(head)
    or re.match(r"\d{1,2}\.(?!\d)", text[stop.end() : stop.end() + 4])
    or word.lower() in _WORDS["counted"]
  )
  is_pair = head.lower().replace(" ", "").endswith(_PAIRS)
  is_title = not _WORDS["never"].isdisjoint((token, lower))
  if is_number or is_pair or is_title or _HEADING.fullmatch(head):
    return True
  is_short = bool(_SHORT.fullmatch(token))
  is_street = lower.endswith("str")  # German: Hauptstr. 5
  is_numbered = is_short or is_street or lower in _WORDS["number"]
  if is_numbered and re.match("[0-9]|[IVXLC]{2}", word):
    return True
  if word.islower() and lower in _WORDS["rarely"] | _WORDS["number"]:
    return True
  if word.lower() in _WORDS["starter"] or stop["closing"].strip(")]"):
    return False
  return is_short or lower in _WORDS["rarely"]


UNSPLIT = (
  "have more than 2,000 characters, so they must be several sentences, without "
  "marks (Thai, Lao) or with marks that docs/languages.md lacks: use a tool "
  "that splits the language"
)


def is_unsplit(sentence: str) -> bool:
  """True if a sentence is so long that it must be several sentences."""
  return len(sentence) > 2000
