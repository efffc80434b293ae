"""Choices of pre-training: packing, sizes of batches, blank texts."""

import numpy as np
import pytest

from data.batching import Packing
from tasks.pretraining import task as pretraining
from tasks.pretraining.answers import Answers
from tests import programs
from tests.serving.tasks import text_config
from tests.training import toy


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
