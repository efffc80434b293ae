"""Sentences of prose in any script, by their marks."""

import re

from storage.progress import num_wide

# Marks that need a blank, or a Chinese or Japanese word, behind them.
_WESTERN = ".!?…‼⁇⁈⁉‽"
# Marks that need none: Unicode's Sentence_Terminal up to U+FFFF but the comma
# of Burmese, and marks of Tibetan and old Thai.
_OTHER = re.sub(
  r"(\w+) ?",
  lambda code: rf"\u{code[1]:>04}",
  "589 61d-61f 6d4 700-702 7f9 837 839 83d-83e 964-965 e5a-e5b f0d-f11 f14 "
  "104b 1362 1367-1368 166e 1735-1736 17d4-17d5 1803 1809 1944-1945 1aa8-1aab "
  "1b5a-1b5b 1b5e-1b5f 1b7d-1b7f 1c3b-1c3c 1c7e-1c7f 2cf9-2cfb 2e2e 2e3c 2e53-"
  "2e54 3002 a4ff a60e-a60f a6f3 a6f7 a876-a877 a8ce-a8cf a92f a9c8-a9c9 aa5d-"
  "aa5f aaf0-aaf1 abeb fe12 fe15-fe16 fe52 fe56-fe57 ff01 ff0e ff1f ff61",
)
MARKS = _WESTERN + _OTHER  # of a set in a regular expression
_CLOSING, _OPENING = (
  """'"”’)\\]}_」』）】》〉〕］｝〞""",
  """'"“‘„‚(\\[{¿¡_「『（【《〈〔［｛〝""",
)
# Marks and what closes behind them, a blank, what opens, and the next word. ";"
# ends Greek, ":" Armenian, two word dividers Ethiopic, "|" Indic sentences.
# Possessive quantifiers scan a run once, in linear time.
_END = re.compile(
  rf"""(?P<marks>
    [{MARKS};:፡|] (?<![{MARKS}].) (?<![0-9A-Za-z０-９Ａ-Ｚａ-ｚ]．)
    (?:(?<![;:፡|])|(?<=[Ͱ-Ͽἀ-῿];)|(?<=[ա-և]:)|(?<=፡፡)|(?<=[ऀ-෿]\|)|(?<=[ऀ-෿]\ \|))
    (?:[{MARKS}|]|\ [།༎])*+)
  (?P<closing>
    (?:[{_CLOSING}]|[«‹“‘](?!\w)|\ ?[»›](?!\w)|\[\w{{1,12}}\])*+)
  (?P<blank>\ ?)
  (?=(?:[—–-]\ |[{_OPENING}»›«‹—–-])*+ (?P<word>\w{{0,12}}+))""",
  re.VERBOSE,
)
_CONTINUES = frozenset("、，；：,;:")
_WORD_START = re.compile(r"""[\s(\["“„«»¿¡—–]""")

# Abbreviations, in lower case without their last full stop. None of these ends
# a sentence;
_ABBREVIATIONS = frozenset(
  "messrs prof rev hon gen col capt lieut maj gov pres sen insp ed eds e.g i.e "
  "viz approx ca evtl inkl exkl geb z.b d.h rer dipl mio allg sog mme mmes mlle "
  "mlles éd sra srta sres dra dña ud uds lic avda ej sig sigg dott avv exmo exma "
  "profa mevr ir bijv f.eks t.ex bl.a hab inż ul al např mudr judr tp gs pgs ths "
  "гг ул пр проф акад св им рис см вул буд डॉ प्रो पं श्री रु ডা মো திரு".split()
)
# these, initials, and words without a vowel, such as Dr. and Nr., do only before
# a word that often begins one;
_MAY_END = frozenset(
  "esq etc al inc co corp bros ave dept univ usw usf ecc av uu osv itp atd apod "
  "тыс млн млрд руб др stb dll".split()
)
_CONSONANTS = "bcdfghjklmnpqrstvwxzčšžłśćźř"
_SHORT = re.compile(
  r"(?!I$)[^\W\d_\u1100-\U0010ffff]|(?:[^\W\d_]{1,2}\.-?)+[^\W\d_]{1,3}"
  rf"|(?!h?m+$)[{_CONSONANTS.upper()}{_CONSONANTS}][{_CONSONANTS}]{{1,4}}"
)
_STARTERS = frozenset(
  "the he she it they we you i but and then there this that these those his her "
  "its their our my in on at if when while after before what why how er es sie wir "
  "ich der die ein eine und aber im am dann doch wenn nach il elle ils elles nous "
  "mais cette dans él ella pero esta este он она они это но мы".split()
)
# these do not before a number.
_NUMBERED = frozenset(
  "no nos núm abb abs art kap cap ch chap sec sect fig figs tab tel vol vols pág "
  "págs pag pagg стр гл табл poz ust op est ver jan feb mar apr jun jul aug sep "
  "sept oct nov dec mär okt dez janv févr avr juil déc ene abr ago dic apt ext "
  "par para circa".split()
)
_NUMBER = re.compile(r"\d.*|[IVXLC]{2,}")
_UNIT = re.compile("[0-9] [a-z]{2,}$")  # 5 km
# None of these ends a sentence, though their last words may.
_PAIRS = (
  "z. b",
  "d. h",
  "e. g",
  "i. e",
  "i. v",
  "dr. med",
  "dr. phil",
  "rer. nat",
)

_HEADING = re.compile(
  r"\d{1,2}(?:\.\d{1,2})*|(?!I)[^\W\d_]"
)  # 1., 1.2., a., 가.
_DATE = re.compile(r"\d\. \d{1,2}$")  # 2024. 3. 15., 3. 5. 1999
_DAY = re.compile(r"\d{1,2}\.(?!\d)")
# German: im 19. Jahrhundert, 5. Januar
_ORDINAL = re.compile(
  r"(?i:(?<!\bI )\bam|\b(?:im|vom|zum|der|die|das|dem|den|des|und)) \d{1,3}$"
)
_COUNTED = frozenset(
  "aufl januar jänner februar märz april mai juni juli august september oktober "
  "november dezember jahrhundert jahrhunderts jh".split()
)


def split_sentences(paragraph: str) -> list[str]:
  """Splits a paragraph into sentences; white space becomes single spaces."""
  text = " ".join(paragraph.split())
  sentences, begin = [], 0
  for end in _END.finditer(text):
    if _is_end(text, begin, end):
      sentences.append(text[begin : end.start("blank")])
      begin = end.end()
  sentences.append(text[begin:])
  return [sentence for sentence in sentences if sentence]


def _is_end(text: str, begin: int, end: re.Match) -> bool:
  """True if a sentence that begins at `begin` ends with the marks."""
  marks, closing, blank, word = end.groups()
  start, first = end.start(), word[:1]
  following = text[end.end() : end.end() + 1]
  if closing and (
    "ぁ" <= following <= "ゖ" or following == "的"
  ):  # 「はい。」と
    return False
  if marks.strip(_WESTERN + ";:"):
    return following not in _CONTINUES
  if not blank:
    is_pause = marks.startswith("……") and text[start - 1] != first  # 我……我
    is_end = marks[-1] in "!?" or (is_pause and first >= "一")
    return is_end and "\u2e80" <= first <= "鿿"
  if not first.isalnum() or (first.islower() and not "ა" <= first <= "ჿ"):
    return False
  return marks != "." or not (
    _HEADING.fullmatch(text, begin, start)
    or _is_abbreviation(text[max(begin, start - 20) : start], closing, word)
    or _is_ordinal(text[max(begin, start - 12) : start], text, end.end(), word)
  )


def _is_ordinal(before: str, text: str, following: int, word: str) -> bool:
  """True if `before` ends with a number of a date, or with a German ordinal."""
  return before[-1:].isdigit() and bool(
    _DATE.search(before)
    or _DAY.match(text, following)
    or _ORDINAL.search(before)
    or (word.lower() in _COUNTED and not before[-3:].isdigit())
  )


def _is_abbreviation(before: str, closing: str, word: str) -> bool:
  """True if `before` ends with an abbreviation within a sentence."""
  token = _WORD_START.split(before)[-1].lstrip("'‘_")
  lower = token.lower()
  if lower in _ABBREVIATIONS or word == "UU" or before.lower().endswith(_PAIRS):
    return True
  is_short = _SHORT.fullmatch(token)
  is_numbered = is_short or lower in _NUMBERED or lower.endswith("str")
  if is_numbered and _NUMBER.fullmatch(word):
    return True
  if word.lower() in _STARTERS or closing.strip(")]"):
    return False
  return lower in _MAY_END or bool(is_short and not _UNIT.search(before))


# --- Texts without marks ---------------------------------------------------

_UNMARKED = re.compile("[\u0e00-\u0eff]{30}")  # Thai and Lao


def is_unsplit(sentence: str) -> bool:
  """True if a sentence is so long that its marks must be unknown or missing."""
  size = len(sentence)
  if size > 200 and _UNMARKED.search(sentence):
    return True
  return size > 1000 and size + 3 * num_wide(sentence) > 4000
