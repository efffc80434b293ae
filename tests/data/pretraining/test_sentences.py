"""Worked examples of sentence ends, and what holds for any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.pretraining import sentences


@pytest.mark.parametrize(
  ("text", "wanted"),
  [
    ("It rained. We stayed in.", ["It rained.", "We stayed in."]),
    ("Is it? Yes! Good.", ["Is it?", "Yes!", "Good."]),
    ('"Go!" he said. "Now?"', ['"Go!" he said.', '"Now?"']),
    ("Mr. Lamb met Dr. Oak.", ["Mr. Lamb met Dr. Oak."]),
    ("J. B. Finch came. I. Too.", ["J. B. Finch came.", "I.", "Too."]),
    (
      "It cost 3.50 in all. 7 were left.",
      ["It cost 3.50 in all.", "7 were left."],
    ),
    ("See e.g. Kent. Etc. and so on", ["See e.g. Kent.", "Etc. and so on"]),
    ("He waited... then left.", ["He waited... then left."]),
    ("Él vino. ¿Cuándo? Ayer.", ["Él vino.", "¿Cuándo?", "Ayer."]),
    ("Es war spät. Über Nacht.", ["Es war spät.", "Über Nacht."]),
    ("(So it was.) Then came May.", ["(So it was.)", "Then came May."]),
    ("  no   end\nhere ", ["no end here"]),
    ("", []),
  ],
)
def test_sentences(text, wanted):
  assert sentences.split(text) == wanted


@given(st.text())
def test_nothing_is_lost(text):
  assert " ".join(sentences.split(text)) == " ".join(text.split())


def test_paragraphs():
  lines = ["", "a", " b ", "", "\t", "c"]
  assert list(sentences.paragraphs(lines)) == ["a b", "c"]


@pytest.mark.parametrize(
  "unit", [".", "a", "Mr. ", "(", '"', ". (", ".)", "? ", "e.g. ", ". .—"]
)
def test_a_paragraph_of_a_megabyte_takes_no_longer_than_its_length(unit):
  text = unit * (1_000_000 // len(unit))
  assert " ".join(sentences.split(text)) == " ".join(text.split())
