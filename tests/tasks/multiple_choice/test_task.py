"""Evaluation and predictions of twelve choices, compared row by row."""

import json

import numpy as np
import pytest

from runs import fine_tune
from serving.answers import softmax
from tasks.multiple_choice import examples
from tasks.multiple_choice.examples import ChoiceRecordBuilder
from tasks.multiple_choice.task import Swag
from tests import programs
from tests.serving.tasks import CONFIG, T, check_ensemble, vocab_file

CHOICES = 12


@pytest.fixture(name="args")
def _args(tmp_path):
  rng = np.random.RandomState(1)
  for name, number in (("train", 5), ("dev", 7), ("test", 4)):
    rows = [
      {"sent1": "a b", "sent2": "c", "label": str((i + 9) % CHOICES)}
      | {
        f"ending{c}": " ".join(rng.choice([*"abcde"], 1 + c % 5))
        for c in reversed(range(CHOICES))
      }
      for i in range(number)
    ]
    lines = "\n".join(map(json.dumps, rows))
    (tmp_path / f"{name}.jsonl").write_text(lines)
  return programs.arguments(
    "run_swag",
    **{f"{x}_file": f"{tmp_path}/{x}.jsonl" for x in ("train", "dev", "test")},
    output_dir=f"{tmp_path}/out",
    vocab_file=vocab_file(),
    max_seq_length=T,
    num_workers=1,
    pack_examples=True,
    eval_batch_size=3,
    predict_batch_size=2,
  )


def _convert(args, split):
  rows = examples.read_examples(args[f"{split}_file"])
  return Swag(args, {split: rows}).convert(split)


def _expected(model, tokenizer, rows):
  """Returns logits and probabilities of examples, both [N, C]."""
  build = ChoiceRecordBuilder(tokenizer, T)
  records = [build(row)[0] for row in rows]
  inputs = (
    {n: np.reshape(record[n], (1, CHOICES, T)) for n in model.input}
    for record in records
  )
  logits = np.concatenate([model(row)["logits"] for row in inputs])
  return logits, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def test_twelve_choices_are_scored_and_predicted(args, tokenizer, tmp_path):
  swag = Swag(args, {})
  model = swag.make_model(CONFIG)
  dev_set = _convert(args, "dev")
  labels = [row.label for row in dev_set.rows]
  assert labels == [9, 10, 11, 0, 1, 2, 3]
  results = fine_tune.evaluate(swag, model, {"dev": dev_set}, 17)
  logits, probs = _expected(model, tokenizer, dev_set.rows)
  losses = -np.log(probs[np.arange(7), labels])
  assert results == {
    "eval_loss": pytest.approx(losses.mean(), rel=1e-5),
    "eval_accuracy": np.mean(logits.argmax(1) == labels),
  }
  written = programs.results(tmp_path / "out")
  assert written == pytest.approx(results | {"global_step": 17})
  test_set = _convert(args, "test")
  swag.predict(model, "test", test_set, 17)
  logits, probs = _expected(model, tokenizer, test_set.rows)
  _, *rows = programs.table(tmp_path / "out" / "test_predictions.tsv")
  assert [int(row[1]) for row in rows] == logits.argmax(1).tolist()
  result = np.array([row[3:] for row in rows], float)
  np.testing.assert_allclose(result, probs, rtol=1e-5)


def test_each_file_has_its_records(args):
  names = {"train": "train", "dev": "eval", "test": "predict"}
  for split, name in names.items():
    part = _convert(args, split)
    assert part.packing is None
    assert part.with_packing(8, packs=True).packing
    assert part.with_packing(8, packs=False).packing is None
    assert part.path == f"{args.output_dir}/{name}.tf_record"
    assert _convert(args.replace(use_tpu=True), split).static_shapes


def test_an_ensemble_has_the_mean_of_the_probabilities(args):
  model = Swag(args.replace(ensemble=2), {}).make_model(CONFIG)
  check_ensemble(model, [2, 3, 4], softmax)
