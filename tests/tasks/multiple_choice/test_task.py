"""The class Swag evaluates and predicts examples with twelve choices."""

import json

import numpy as np
import pytest

from runs import fine_tune
from serving.answers import softmax
from tasks.multiple_choice import examples, task
from tasks.multiple_choice.examples import ChoiceExample, ChoiceRecordBuilder
from tasks.multiple_choice.task import Swag
from tests import programs
from tests.serving.tasks import CONFIG, T, check_ensemble, settings

CHOICES = 12


@pytest.fixture(name="args")
def _args(tmp_path):
  """Writes files of three splits with twelve endings a row; returns flags."""
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
    (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
  names = ("train", "dev", "test")
  files = {f"{name}_file": f"{tmp_path}/{name}.jsonl" for name in names}
  return settings("run_swag", tmp_path, **files)


def _convert(args, split):
  rows = examples.read_examples(args[f"{split}_file"])
  return Swag(args, {split: rows}).convert(split)


def test_twelve_choices_are_scored(args, tokenizer, tmp_path):
  swag = Swag(args, {})
  model = swag.make_model(CONFIG)
  dev_set = _convert(args, "dev")
  labels = [row.label for row in dev_set.rows]
  assert labels == [9, 10, 11, 0, 1, 2, 3]
  results = fine_tune.evaluate(swag, model, {"dev": dev_set}, 17)
  build = ChoiceRecordBuilder(tokenizer, T)
  records = [build(row)[0] for row in dev_set.rows]
  inputs = (
    {n: np.reshape(record[n], (1, CHOICES, T)) for n in model.input}
    for record in records
  )
  logits = np.concatenate([model(row)["logits"] for row in inputs])  # [N, C]
  losses = -np.log(softmax(logits)[np.arange(7), labels])
  assert results == {
    "eval_loss": pytest.approx(losses.mean(), rel=1e-5),
    "eval_accuracy": np.mean(logits.argmax(1) == labels),
  }
  written = programs.results(tmp_path / "out")
  assert written == pytest.approx(results | {"global_step": 17})


def test_the_probability_is_nan_after_a_training_that_diverged(args):
  rows = _convert(args, "dev").rows[:1]
  [one] = Swag(args, {})._judged(rows, np.full((1, CHOICES), np.nan))
  assert np.isnan(one.probability)


def test_a_dry_run_reads_only_the_first_examples(args, monkeypatch):
  monkeypatch.setattr("runs.settings._DRY_RUN_EXAMPLES", 2)
  assert len(_convert(args.replace(dry_run=True), "dev").rows) == 2


def test_records_of_each_split_can_be_packed(args, log):
  for split in ("train", "dev", "test"):
    part = _convert(args.replace(jit_compile=True), split)
    assert part.with_packing(8, packs=True).packing
    assert "a batch of 96 takes" in log.text  # 12 choices of each example
    assert part.multiple == (32 if split == "train" else 8)
  args = args.replace(num_workers=None)  # reaches a comparison, which raises
  with pytest.raises(TypeError, match="'<' not supported"):
    _convert(args, "dev")


def test_an_ensemble_averages_the_probabilities_of_all_choices(
  args, monkeypatch
):
  monkeypatch.setattr(task.model_files, "config", lambda _: CONFIG)
  texts = {"sent1": "a", "sent2": "b", "choices": ["c"] * 40}
  for size, rows in ((1, [32, 8]), (2, [40])):
    served = Swag.served_model(args.replace(ensemble=size))
    encoded = served.answers.encode(texts)
    assert [len(row["input_ids"]) for row in encoded.rows] == rows
  check_ensemble(served.model, [2, 3, 4], softmax)


ENDINGS = ("the boat sinks", "a bell\trings\nloudly", "it rains")
EXAMPLES = [ChoiceExample("We wait", "then", ENDINGS)] * 4
# The most probable choices are 1, 2, 0, 0.
ODDS = [[1, 8, 1], [1, 1, 2], [6, 1, 1], [5, 1, 2]]
LOGITS = np.log(np.array(ODDS, np.float32))


def test_predictions_are_written_to_two_files(args, tmp_path, monkeypatch):
  monkeypatch.setattr(task.loop, "outputs", lambda *_: {"logits": LOGITS})
  records = task.RecordDataset(EXAMPLES, "", None, 8)
  swag = Swag(args.replace(output_dir=str(tmp_path)), {})
  swag.predict(None, "test", records, 1)
  numbers = np.array(programs.table(tmp_path / "test_results.tsv"), float)
  expected = np.divide(ODDS, np.sum(ODDS, axis=1, keepdims=True))
  np.testing.assert_allclose(numbers, expected, rtol=1e-6)
  header, *rows = programs.table(tmp_path / "test_predictions.tsv")
  assert header == "number prediction text ending0 ending1 ending2".split()
  assert [row[:3] for row in rows] == [
    ["0", "1", "a bell rings loudly"],  # one cell on one line
    ["1", "2", "it rains"],
    ["2", "0", "the boat sinks"],
    ["3", "0", "the boat sinks"],
  ]
  probs = np.array([row[3:] for row in rows], float)
  np.testing.assert_array_equal(probs, numbers)
