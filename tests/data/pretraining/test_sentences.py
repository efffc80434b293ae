"""Sentences of prose: labelled lines, single rules, texts without marks."""

from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.pretraining.sentences import is_unsplit, split_sentences

LINES = Path(__file__).with_name("sentences.txt")


def _labelled():
  """Texts with their sentences, in 40 languages."""
  for line in LINES.read_text("utf-8").splitlines():
    if not line.startswith("#"):
      yield line.replace("¦", ""), [part.strip() for part in line.split("¦")]


def _ends(sentences):
  """Positions of the ends within a paragraph, without its blanks."""
  sizes = (len(sentence.replace(" ", "")) for sentence in sentences[:-1])
  return set(accumulate(sizes))


def test_labelled_paragraphs_are_split_into_their_sentences():
  wrong = []
  agreed = missed = added = 0
  for text, sentences in _labelled():
    result = split_sentences(text)
    expected, actual = _ends(sentences), _ends(result)
    agreed += len(expected & actual)
    missed += len(expected - actual)
    added += len(actual - expected)
    if result != sentences:
      wrong.append(result)
  assert agreed > 270
  assert agreed / (agreed + added) > 0.985, wrong  # precision
  assert agreed / (agreed + missed) > 0.985, wrong  # recall


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("It rained. We stayed in.", ["It rained.", "We stayed in."]),
    ("Is it? Yes! Good.", ["Is it?", "Yes!", "Good."]),
    ('"Go!" he said. "Now?"', ['"Go!" he said.', '"Now?"']),
    ("Mr. Lamb met Dr. Oak.", ["Mr. Lamb met Dr. Oak."]),
    ("J. B. Finch came. I. Too.", ["J. B. Finch came.", "I.", "Too."]),
    ("It cost 3.50 at most. 7 won.", ["It cost 3.50 at most.", "7 won."]),
    ("See e.g. Kent. Etc. and so on", ["See e.g. Kent.", "Etc. and so on"]),
    ("He waited... then left.", ["He waited... then left."]),
    ("Él vino. ¿Cuándo? Ayer.", ["Él vino.", "¿Cuándo?", "Ayer."]),
    ("Es war spät. Über Nacht.", ["Es war spät.", "Über Nacht."]),
    ("(So it was.) Then came May.", ["(So it was.)", "Then came May."]),
    ("1. Owls. They hunt.", ["1. Owls.", "They hunt."]),
    ("2024. 3. 15. 비가 왔다. 끝.", ["2024. 3. 15. 비가 왔다.", "끝."]),
    ("가. 좋은 것. 나. 다음 것.", ["가. 좋은 것.", "나. 다음 것."]),
    ("  no   end\nhere ", ["no end here"]),
    ("A line\u2028a\x85b\x0bc\x0cd\re.", ["A line a b c d e."]),
    ("", []),
    # A run of marks is one end. What closes belongs to the sentence.
    ("真的！？好……。“行。”", ["真的！？", "好……。", "“行。”"]),
    ("中国。[1]美国。", ["中国。[1]", "美国。"]),
    ("Owls hunt.[2] They do.", ["Owls hunt.[2]", "They do."]),
    ("値は３．５だ．次へ．", ["値は３．５だ．", "次へ．"]),
    ("「はい。」と言った。次。", ["「はい。」と言った。", "次。"]),
    ("他说“好！”，就走了。", ["他说“好！”，就走了。"]),
    # Marks of ASCII end Chinese, Hindi, Greek and Armenian in their place only.
    ("很好!是3.5元?好。", ["很好!", "是3.5元?", "好。"]),
    ("वह गया| वह आया |", ["वह गया|", "वह आया |"]),
    ("a | b; C: D", ["a | b; C: D"]),
    ("Πού; Εδώ.", ["Πού;", "Εδώ."]),
    ("Նա: Մենք։", ["Նա:", "Մենք։"]),
    # A word in lower case begins no sentence, but Georgian has no capitals.
    ("Это г. москва. Да.", ["Это г. москва.", "Да."]),
    ("წვიმდა. დავრჩით.", ["წვიმდა.", "დავრჩით."]),
    # These may end a sentence: it depends on the next word.
    ("The U.S. Army. The U.S. He", ["The U.S. Army.", "The U.S.", "He"]),
    ("He said no. Pears. No. 5.", ["He said no.", "Pears.", "No. 5."]),
    ("It is 5 km. Bears run.", ["It is 5 km.", "Bears run."]),
    ("I am 12. Bob is 13.", ["I am 12.", "Bob is 13."]),
    ("Am 12. Mai. Das 13. Mal.", ["Am 12. Mai.", "Das 13. Mal."]),
  ],
)  # fmt: skip
def test_sentences(text, expected):
  assert split_sentences(text) == expected


def test_no_abbreviation_ends_a_sentence():
  for text in (
    "Gov. Ash, Gen. Birch, Col. Cedar and Prof. Elm met at St. Fir.",
    "See Rook vs. Finch, vol. 2, no. 3, ch. 4, sec. 5, pp. 6 and fig. 7.",
    "Am 5. Januar ging er in Kl. B, z. B. zu Dr. Elm, Nr. 5, am 3. Mai.",
    "On Jan. 5, 1999, M. Dupont, J. R. R. Finch and Sra. Ash read art. 5.",
  ):
    assert split_sentences(text) == [text]


@given(st.text())
def test_nothing_is_lost(text):
  assert " ".join(split_sentences(text)).split() == text.split() or (
    "".join(split_sentences(text)).replace(" ", "") == "".join(text.split())
  )


UNITS = [".", "a", "Mr. ", "(", '"', ". (", ".)", "? ", "e.g. ", ". .—"]
UNITS += [
  "。",
  "……",
  "「",
  "。」",
  "। ",
  "a|",
  ". - ",
  "- ",
  ".[a]",
  "5. ",
  ";",
  "፡",
]


@pytest.mark.parametrize("unit", UNITS)
def test_a_paragraph_of_a_megabyte_takes_no_longer_than_its_length(unit):
  text = unit * (1_000_000 // len(unit))
  result = "".join(split_sentences(text))
  assert result.replace(" ", "") == "".join(text.split())


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("word " * 799, False),
    ("word " * 801, True),
    ("字" * 1000, False),  # a character counts as four
    ("字" * 1001, True),
    ("ฝนตก" * 50, False),
    ("ฝนตก" * 51, True),  # Thai has no marks, so a paragraph is enough
    ("ฝนตก " * 190, False),
    ("The town is ฝนตก. " * 20, False),
  ],
)
def test_texts_without_known_marks_are_noticed(text, expected):
  assert is_unsplit(text) == expected
