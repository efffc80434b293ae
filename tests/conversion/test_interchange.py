"""The head of a model."""

import numpy as np
import pytest

from conversion import interchange
from conversion.interchange import HEADS, CanonicalModel, head_of
from storage import UserError


def _bert(*heads, labels=()):
  names = [name for head in heads for name in HEADS[head].variables]
  return CanonicalModel("x", dict.fromkeys([*names, "bert/a"]), labels=labels)


def test_heads_are_known_by_variables_and_classes():
  names = "MultipleChoice QuestionAnswering TokenClassification "
  names += "SequenceClassification PreTraining MaskedLM"
  classes = [*(f"BertFor{name}" for name in names.split()), "BertModel"]
  assert [head.architecture for head in HEADS.values()] == classes
  for head in HEADS.keys() - {"tagging"}:  # tagging has the same variables
    assert head_of(_bert(head)) == head


@pytest.mark.parametrize(
  ("error", "kind"),
  [
    (OSError("/a is gone"), OSError),
    (OSError("no space"), UserError),
    (KeyError("x"), UserError),
    (UserError("of /a: 3 rows"), UserError),
  ],
)
def test_an_error_of_a_reader_names_the_path(error, kind):
  @interchange.names_path
  def read(path):
    raise error

  with pytest.raises(kind, match="/a") as caught:
    read("/a")
  assert (caught.value is error) == ("/a" in str(error))


@pytest.mark.parametrize(
  ("labels", "head"),
  [
    (("B-PER", "I-PER", "O"), "tagging"),
    (("O", "I-LOC"), "tagging"),
    (("O", "B"), "classification"),
    (("B-1", "I-1"), "classification"),
  ],
)
def test_labels_tell_a_tagger_from_a_classifier(labels, head):
  bert = _bert("tagging", labels=labels)
  assert head_of(bert) == head
  assert head_of(bert, "tagging") == "tagging"
  bert.head = "question_answering"  # has no such variables
  assert head_of(bert) == head
  bert.head = "tagging"
  assert head_of(bert) == "tagging"


def test_an_expected_head_must_exist():
  assert head_of(_bert("pretraining"), "masked_lm") == "masked_lm"
  with pytest.raises(ValueError, match=r"no head for multiple_choice: .* cls/"):
    head_of(_bert("pretraining"), "multiple_choice")


def test_an_encoder_alone_has_no_labels():
  bert = _bert("classification", labels=("no", "yes"))
  bert.thresholds = {"thresholds.tsv": "x"}
  bert.drop_head()
  assert [*bert.values] == ["bert/a"]
  assert (bert.labels, bert.thresholds) == ((), {})
  [names] = bert.skipped.values()
  assert names == ["output_bias", "output_weights"]


@pytest.mark.parametrize(
  ("name", "shape", "expected"),
  [
    ("b/attention/self/query/kernel", (6, 2, 3), (6, 6)),
    ("b/attention/self/key/bias", (2, 3), (6,)),
    ("b/attention/output/dense/kernel", (2, 3, 6), (6, 6)),
    ("b/attention/output/dense/bias", (6,), (6,)),
    ("b/output/dense/kernel", (9, 6), (9, 6)),
  ],
)
def test_axes_of_heads_are_joined(name, shape, expected):
  value = np.arange(np.prod(shape)).reshape(shape)
  joined = interchange.merge_heads(name, value)
  assert joined.shape == expected
  np.testing.assert_array_equal(joined.ravel(), value.ravel())
