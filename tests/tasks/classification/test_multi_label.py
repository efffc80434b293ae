"""Texts with several labels: files, records, thresholds and class weights."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from data import features, labels
from modeling import losses
from tasks.classification import examples, metrics, named_tasks, task
from tasks.classification.examples import TextExample, TextRecordBuilder
from tests.tasks.classification.test_custom_task import task_of, write_files

LABELS = ("joy", "wit", "woe")


def test_a_text_in_a_users_file_may_have_several_labels(tmp_path):
  dev = '{"text": "D", "label": ["wit", "joy"]}\n{"text": "E", "label": []}\n'
  train = "text\tlabel\nA\twoe|joy\nB\t\nC\twit\n"
  data = write_files(tmp_path, train_tsv=train, dev_jsonl=dev)
  flags = {"text_a_column": "text", "label_column": "label"}
  custom = task_of(data, f"{tmp_path}/out", multi_label=True, **flags)
  assert custom.labels == LABELS
  assert custom.metrics == ("micro_f1", "macro_f1")
  texts = named_tasks.read(custom, str(tmp_path), ("train", "dev"))
  rows = [row.label for part in texts.values() for row in part]
  assert rows == [("woe", "joy"), (), ("wit",), ("wit", "joy"), ()]


def test_records_have_a_0_or_1_for_each_label(tokenizer):
  build = TextRecordBuilder(tokenizer, 4, LABELS, multi_label=True)
  for label, expected in ((("woe", "joy"), [1, 0, 1]), ((), [0] * 3)):
    row, _ = build(TextExample("", "a", label=label))
    assert row["label_ids"] == expected
    assert row.keys() == features.classification(4, (3,)).keys()
  for unlabelled in (TextExample("", "a"), None):
    assert build(unlabelled)[0]["label_ids"] == [0, 0, 0]


_pairs = st.tuples(st.sampled_from((0.0, 0.1, 0.3, 0.7, 1.0)), st.booleans())


@given(st.lists(_pairs, min_size=1))
def test_no_threshold_has_a_better_f1_than_the_best_threshold(pairs):
  probs, is_label = map(np.array, zip(*pairs, strict=True))
  best = metrics.best_threshold(probs.astype(np.float32), is_label)

  def f1(threshold):
    return f1_score(is_label, probs >= threshold, zero_division=0.0)

  assert 0 <= best <= 1
  assert all(f1(best) >= f1(t) for t in (-1, 0.05, 0.2, 0.5, 0.8, 1.1))
  if not is_label.any():
    assert best == 0.5


@given(st.floats(2**-20, 1.0, width=32))
def test_the_best_threshold_separates_neighboring_floats(value):
  probs = np.array([value, np.nextafter(np.float32(value), -1)], np.float32)
  best = metrics.best_threshold(probs, np.array([1, 0]))
  predicted = metrics.predictions(several_labels(best), probs[:, None])
  assert predicted.tolist() == [[1], [0]]
  assert len(str(best)) < 16  # no more digits than needed


def several_labels(*thresholds):
  """Returns a task with LABELS and these thresholds."""
  more = {"multi_label": True, "thresholds": thresholds}
  names = ("micro_f1", "macro_f1")
  return examples.ClassificationTask("tsv", {}, LABELS, names, **more)


def test_saved_thresholds_are_loaded_unchanged(tmp_path):
  saved = several_labels(0.125, 1 / 3, 0.9)
  path = tmp_path / labels.THRESHOLDS
  assert metrics.load_thresholds(saved, str(path)) == (0.5, 0.5, 0.5)
  metrics.save_thresholds(saved, str(path))
  assert metrics.load_thresholds(saved, str(path)) == saved.thresholds
  for wrong in ("wit\t1\njoy\t1\nwoe\t1\n", "joy\n", "joy\tx\n"):
    path.write_text(wrong)
    with pytest.raises(ValueError, match=r"thresholds\.tsv must have the"):
      metrics.load_thresholds(saved, str(path))


def test_an_evaluation_scores_with_fitted_thresholds_and_with_0_5():
  names = (("joy",), ("joy",), (), ("woe",))
  rows = [TextExample("", "", label=label) for label in names]
  probs = np.array([[0.9, 0, 0.2], [0.4, 0, 0.1], [0.3, 0.6, 0.1], [0, 0, 0.3]])
  custom = several_labels(0.4, 0.7, 0.3)
  result = metrics.results(custom, probs, np.ones(4), rows, 8)
  assert result["eval_micro_f1"] == 1.0
  assert result["eval_macro_f1"] == pytest.approx(2 / 3)  # no text has wit
  # At 0.5 the model predicts joy once, and wit once, which is wrong.
  assert result["eval_micro_f1_at_0.5"] == pytest.approx(2 * 1 / (2 + 3))
  assert result["eval_macro_f1_at_0.5"] == pytest.approx(2 / 3 / 3)


def _weights(setting, named, *names):
  args = SimpleNamespace(class_weights=setting, max_examples=4)
  rows = [TextExample("", "", label=name) for name in names]
  return task.Classification(args, {"train": rows}, named=named).class_weights()


def _one_label(*names):
  return examples.ClassificationTask("tsv", {}, names, ())


def test_class_weights_are_computed_or_given(monkeypatch):
  monkeypatch.setattr(metrics, "label_ids", None)  # makes rows x labels
  one = _one_label("a", "b", "c")
  assert _weights([], one, "a") == ()
  weights = _weights(["balanced"], one, "a", "a", "a", "b", "a")
  # Four texts / (three labels * number of texts with the label).
  assert weights == pytest.approx((4 / (3 * 3), 4 / (3 * 1), 1.0))
  assert _weights(["b=2.5", "c=1e1"], one, "a") == (1.0, 2.5, 10.0)
  assert _weights(["b=c=2"], _one_label("a", "b=c"), "a") == (1.0, 2.0)
  several = several_labels()
  # Each of several labels: texts without the label / texts with the label.
  rows = (("joy", "woe"), ("joy",), ("joy",), ())
  assert _weights(["balanced"], several, *rows) == pytest.approx((1 / 3, 1, 3))
  # The balanced weight of joy, which every text has, would be 0.
  rows = (("joy",), ("joy",), ("joy", "woe"))
  assert _weights(["balanced"], several, *rows) == (1, 1, 2)


def test_class_weights_reach_the_objective_of_one_or_several_labels():
  objective = task.objective(_one_label("a", "b"), (1.0, 3.0))
  weights = objective.weights({"label_ids": [0, 1, 1]})
  assert np.asarray(weights["example_loss"]).tolist() == [1, 3, 3]
  batch = {"label_ids": np.eye(3, dtype=int)}
  outputs, weights = {"logits": np.zeros((3, 3), np.float32)}, (1.0, 2.0, 4.0)
  both = task.objective(several_labels(), weights), losses.multi_label(weights)
  result, expected = (x.losses(outputs, batch)["example_loss"] for x in both)
  np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("part", ["a=0", "a=inf", "2"])
def test_wrong_class_weights_are_refused(part):
  message = f"--class_weights: '{part}' is not label=weight with a positive"
  with pytest.raises(ValueError, match=message):
    _weights([part], _one_label("a", "b"), "a")
  with pytest.raises(ValueError, match="STS-B has scores, not labels"):
    _weights([part], named_tasks.find("STS-B"), "1.0")
