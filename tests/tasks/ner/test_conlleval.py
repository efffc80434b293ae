"""Named entities by the rules of conlleval, with its numbers and layout."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.ner import metrics
from tasks.ner.examples import Sentence
from tasks.ner.metrics import Score
from tasks.ner.schemes import Entity, recognize


@pytest.mark.parametrize(
  ("tags", "names"),
  [
    ("B-X I-X O", [("X", 0, 2)]),
    ("O I-X I-X", [("X", 1, 3)]),  # IOB1: I- begins after O
    ("I-X B-X", [("X", 0, 1), ("X", 1, 2)]),
    ("B-X I-Y", [("X", 0, 1), ("Y", 1, 2)]),  # another type begins
    ("S-X S-X", [("X", 0, 1), ("X", 1, 2)]),
    ("B-X E-X I-X", [("X", 0, 2), ("X", 2, 3)]),  # begins after E-
    ("B-X I-X E-X E-X", [("X", 0, 3), ("X", 3, 4)]),
    ("O E-X", [("X", 1, 2)]),
    ("U-X B-X L-X", [("X", 0, 1), ("X", 1, 3)]),  # BILOU
    ("X X Y O", [("X", 0, 2), ("Y", 2, 3)]),  # no prefixes at all
    ("B I O B B", [("", 0, 2), ("", 3, 4), ("", 4, 5)]),  # no types
    ("S B L", [("", 0, 1), ("", 1, 3)]),
    ("O O", []),
    ("", []),
  ],
)
def test_entities_are_located_as_in_conlleval(tags, names):
  result = recognize(tags.split()).entities(tags.split())
  assert result == [Entity(*name) for name in names]


BIO = recognize(["B-PER", "I-PER", "B-LOC", "B-ORG", "I-ORG"])
GOLD = ["B-PER I-PER O B-LOC", "B-ORG O B-PER"]
PREDICTED = ["B-PER I-PER O B-ORG", "B-ORG I-ORG O"]


def _split(lines):
  return [line.split() for line in lines]


def test_scores_by_hand():
  scores = metrics.evaluate(_split(GOLD), _split(PREDICTED), BIO)
  overall = scores.overall
  assert overall == Score(labels=4, predicted=3, correct=1)
  assert (overall.precision, overall.recall) == (1 / 3, 1 / 4)
  assert overall.f1 == 2 / 7
  types = {"LOC": Score(1, 0, 0), "ORG": Score(1, 2, 0), "PER": Score(2, 1, 1)}
  assert scores.by_type == types
  assert (scores.words, scores.accuracy) == (7, 4 / 7)
  assert scores.by_type["LOC"].precision == 0
  assert metrics.report(scores).splitlines() == [
    "processed 7 tokens with 4 phrases; found: 3 phrases; correct: 1.",
    "accuracy:  57.14%; precision:  33.33%; recall:  25.00%; FB1:  28.57",
    "              LOC: precision:   0.00%; recall:   0.00%; FB1:   0.00  0",
    "              ORG: precision:   0.00%; recall:   0.00%; FB1:   0.00  2",
    "              PER: precision: 100.00%; recall:  50.00%; FB1:  66.67  1",
  ]


def test_a_long_type_in_hangul_has_a_line():
  name = "\uac00" * 18
  scores = metrics.evaluate([["B-" + name]], [["O"]], recognize(["B-" + name]))
  assert metrics.report(scores).splitlines()[-1].startswith(f"{name}: ")


PREFIXES = ("B-", "I-", "E-", "S-")
BIOES = ("O", *(prefix + kind for prefix in PREFIXES for kind in "XY"))
_pairs = st.tuples(*[st.sampled_from(BIOES)] * 2)


@given(
  st.lists(st.lists(_pairs, min_size=1, max_size=12), min_size=1, max_size=5)
)
def test_numbers_are_those_of_seqeval(sentences):
  seqeval = pytest.importorskip("seqeval.metrics")
  gold = [[tag for tag, _ in sentence] for sentence in sentences]
  predicted = [[tag for _, tag in sentence] for sentence in sentences]
  score = metrics.evaluate(gold, predicted, recognize(BIOES)).overall
  for metric, value in (
    (seqeval.precision_score, score.precision),
    (seqeval.recall_score, score.recall),
    (seqeval.f1_score, score.f1),
  ):
    assert value == pytest.approx(metric(gold, predicted, zero_division=0))


def test_blanks_within_tags_make_no_columns(tmp_path):
  path = tmp_path / "p.txt"
  sentences = [Sentence(["Ely"], ["B-old town"])]
  metrics.write_conll(str(path), sentences, [["B-new town"]])
  assert path.read_text() == "Ely B-old_town B-new_town\n\n"
