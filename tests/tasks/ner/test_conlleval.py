"""Names in texts: the rules of conlleval, its numbers and its form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.ner import metrics
from tasks.ner.examples import Sentence
from tasks.ner.metrics import Entity, Score


@pytest.mark.parametrize(
  ("tags", "names"),
  [
    ("B-X I-X O", [("X", 0, 2)]),
    ("O I-X I-X", [("X", 1, 3)]),  # IOB1: I- after O begins
    ("I-X B-X", [("X", 0, 1), ("X", 1, 2)]),
    ("B-X I-Y", [("X", 0, 1), ("Y", 1, 2)]),  # another type begins
    ("S-X S-X", [("X", 0, 1), ("X", 1, 2)]),
    ("B-X E-X I-X", [("X", 0, 2), ("X", 2, 3)]),  # after an end begins
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
def test_where_names_are(tags, names):
  assert metrics.entities(tags.split()) == [Entity(*name) for name in names]


GOLD = ["B-PER I-PER O B-LOC", "B-ORG O B-PER"]
PREDICTED = ["B-PER I-PER O B-ORG", "B-ORG I-ORG O"]


def _split(lines):
  return [line.split() for line in lines]


def test_scores_by_hand():
  scores = metrics.evaluate(_split(GOLD), _split(PREDICTED))
  assert scores.overall == Score(labels=4, predicted=3, correct=1)
  assert scores.overall.precision == 1 / 3
  assert scores.overall.recall == 1 / 4
  assert scores.overall.f1 == 2 / 7
  assert scores.by_type == {
    "LOC": Score(1, 0, 0),
    "ORG": Score(1, 2, 0),
    "PER": Score(2, 1, 1),
  }
  assert scores.words == 7
  assert scores.accuracy == 4 / 7
  assert scores.by_type["LOC"].precision == 0


def test_report_reads_as_conllevals():
  scores = metrics.evaluate(_split(GOLD), _split(PREDICTED))
  assert metrics.report(scores).splitlines() == [
    "processed 7 tokens with 4 phrases; found: 3 phrases; correct: 1.",
    "accuracy:  57.14%; precision:  33.33%; recall:  25.00%; FB1:  28.57",
    "              LOC: precision:   0.00%; recall:   0.00%; FB1:   0.00  0",
    "              ORG: precision:   0.00%; recall:   0.00%; FB1:   0.00  2",
    "              PER: precision: 100.00%; recall:  50.00%; FB1:  66.67  1",
  ]


def test_a_long_type_in_hangul_has_a_line():
  name = "\uac00" * 18
  scores = metrics.evaluate([["B-" + name]], [["O"]])
  assert metrics.report(scores).splitlines()[-1].startswith(f"{name}: ")


def _sequences(tags):
  sentence = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
      st.lists(st.sampled_from(tags), min_size=n, max_size=n),
      st.lists(st.sampled_from(tags), min_size=n, max_size=n),
    )
  )
  return st.lists(sentence, min_size=1, max_size=5)


PREFIXES = ("B-", "I-", "E-", "S-")
BIOES = ("O", *(prefix + kind for prefix in PREFIXES for kind in "XY"))


@given(_sequences(BIOES))
def test_numbers_are_those_of_seqeval(pairs):
  seqeval = pytest.importorskip("seqeval.metrics")
  gold, predicted = map(list, zip(*pairs, strict=True))
  score = metrics.evaluate(gold, predicted).overall
  expected = [
    metric(gold, predicted, zero_division=0)
    for metric in (
      seqeval.precision_score,
      seqeval.recall_score,
      seqeval.f1_score,
    )
  ]
  assert [score.precision, score.recall, score.f1] == pytest.approx(expected)


def test_blanks_within_tags_make_no_columns(tmp_path):
  path = tmp_path / "p.txt"
  sentences = [Sentence(["Ely"], ["B-old town"])]
  metrics.write_conll(str(path), sentences, [["B-new town"]])
  assert path.read_text() == "Ely B-old_town B-new_town\n\n"
