"""Choices of tasks: between two files, for values of 0, for full batches."""

import json

import numpy as np
import pytest
import tensorflow as tf

from data.batching import Packing
from tasks.classification import named_tasks
from tasks.classification.task import Classification
from tasks.multiple_choice import examples as choices
from tasks.multiple_choice.examples import ChoiceRecordBuilder
from tasks.pretraining import task as pretraining
from tasks.pretraining.answers import Answers
from tests import programs
from tests.serving.tasks import T, text_config, vocab_file
from tests.training import toy

# --- Classification ----------------------------------------------------------


@pytest.mark.parametrize("number", [1, 3, 4, 6, 8])
@pytest.mark.parametrize("use_tpu", [False, True])
def test_a_batch_that_is_full_is_not_filled_up(tmp_path, number, use_tpu):
  """Batches have one row in train, four in dev and three in test."""
  rows = "".join(f"a b\t{i % 2}\n" for i in range(number))
  for name in ("train", "dev"):
    (tmp_path / f"{name}.tsv").write_text(f"sentence\tlabel\n{rows}")
  rows = "".join(f"{i}\ta b\n" for i in range(number))
  (tmp_path / "test.tsv").write_text(f"index\tsentence\n{rows}")
  task = named_tasks.find("SST-2")
  args = programs.arguments(
    "run_classifier",
    **{"data_dir": str(tmp_path), "output_dir": str(tmp_path / "out")},
    **{"vocab_file": vocab_file(), "max_seq_length": T, "use_tpu": use_tpu},
    **{"eval_batch_size": 4, "predict_batch_size": 3},
  )
  for split, size in (("train", 1), ("dev", 4), ("test", 3)):
    [(_, examples)] = named_tasks.read(task, str(tmp_path), [split]).items()
    part = Classification(args, {split: examples}, named=task).convert(split)
    expected = -(-number // size) * size if use_tpu else number
    assert len([*tf.data.TFRecordDataset(part.path)]) == expected
    assert len(part.rows) == number


# --- Multiple choice ---------------------------------------------------------


@pytest.mark.parametrize("labels", [[0, 1], [0, 0], [1, 0], None])
def test_the_first_ending_may_be_right(tmp_path, tokenizer, labels):
  """The number of the first ending is 0; an unknown label is recorded as 0."""
  path = tmp_path / "a.jsonl"
  row = {"sent1": "a", "sent2": "b", "ending0": "c", "ending1": "d"}
  rows = [
    row | ({"label": label} if labels else {}) for label in labels or "xy"
  ]
  path.write_text("\n".join(map(json.dumps, rows)))
  examples = choices.read_examples(str(path), needs_labels=bool(labels))
  assert [example.label for example in examples] == (labels or [None, None])
  build = ChoiceRecordBuilder(tokenizer, T)
  ids = [build(example)[0]["label_ids"] for example in examples]
  assert ids == [[label] for label in labels or [0, 0]]
  if not labels:
    with pytest.raises(ValueError, match="has no column label"):
      choices.read_examples(str(path), needs_labels=True)


# --- Pre-training ------------------------------------------------------------


@pytest.mark.parametrize("packs", [None, False, True])
def test_records_are_packed_if_asked(tmp_path, packs):
  toy.write_records(str(tmp_path / "a"), 4)
  args = programs.arguments(
    "run_pretraining",
    **{"input_file": str(tmp_path / "a"), "output_dir": str(tmp_path)},
    **{"max_seq_length": toy.T, "max_predictions_per_seq": toy.P},
    pack_examples=packs,
  )
  records = pretraining.train_data(args, toy.config())
  assert records.packing == (Packing(toy.T) if packs else None)


def test_batches_of_an_evaluation_have_their_own_size(tmp_path, monkeypatch):
  sizes = []
  args = programs.arguments(
    "run_pretraining",
    **{"eval_batch_size": 5, "train_batch_size": 7, "max_eval_steps": 3},
    output_dir=str(tmp_path),
  )

  def evaluate(model, objective, batches, max_steps):
    sizes.append((batches, max_steps))
    return {"loss": 1.0}

  class Records:
    """Stands in for the records of an evaluation."""

    def endless_eval_batches(self, size):
      return size

    def first_corrupt(self):
      return None

  monkeypatch.setattr(pretraining.inference, "evaluate", evaluate)
  pretraining.evaluate(args, "model", "objective", Records(), 1)
  assert sizes == [(5, 3)]


@pytest.mark.parametrize("pair", [{}, {"text_pair": ""}, {"text_pair": None}])
def test_a_blank_second_text_is_none(pair):
  model = Answers(text_config())
  alone = model.encode({"text": "a [MASK] b"})
  result = model.encode({"text": "a [MASK] b"} | pair)
  for name, values in alone.rows[0].items():
    np.testing.assert_array_equal(result.rows[0][name], values)
  logits = np.zeros([1, 1 + max(model.vocab_ids)], np.float32)
  outputs = {"masked_lm_logits": logits, "next_sentence_logits": logits[0, :2]}
  answer = model.decode(result, [outputs])
  assert "is_next" not in answer
  result = model.encode({"text": "a [MASK] b", "text_pair": "c"})
  assert "is_next" in model.decode(result, [outputs])
