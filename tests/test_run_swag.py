"""run_swag.py as a command, on sentences with one ending that makes sense."""

import csv
import json
import random

import numpy as np
import pytest

from data.vocab import SPECIAL_TOKENS
from tests import programs, shared, small_model

# Beginnings of sentences. A right ending says what an animal does.
BEGINNINGS = ("the old dog sleeps", "then it"), ("a cat", ""), ("it", "soon it")
RIGHT = ("barks", "purrs", "eats")
WRONG = ("melts", "rhymes", "boils", "rusts")
MORE = ("loudly", "at noon", "again, and again")
WORDS = "the old dog sleeps then it a cat soon loudly at noon again and ,"
VOCABULARY = [*SPECIAL_TOKENS, *WORDS.split(), *RIGHT, *WRONG]


def _examples(number, choices, seed):
  """Yields rows of a table: beginnings, endings, number of the right ending."""
  rng = random.Random(seed)
  for _ in range(number):
    label = rng.randrange(choices)
    verbs = rng.choices(WRONG, k=choices)
    verbs[label] = rng.choice(RIGHT)
    sent1, sent2 = rng.choice(BEGINNINGS)
    endings = {
      f"ending{i}": f"{verb} {rng.choice(MORE)}" for i, verb in enumerate(verbs)
    }
    yield {"sent1": sent1, "sent2": sent2, **endings, "label": str(label)}


def _write(path, rows, delimiter):
  with open(path, "w", newline="") as file:
    writer = csv.DictWriter(file, rows[0], delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)


@pytest.fixture(scope="module", name="given")
def _given(tmp_path_factory):
  """Writes training rows of three choices, dev rows of four; returns flags."""
  folder = tmp_path_factory.mktemp("given")
  _write(folder / "train.csv", list(_examples(80, 3, 1)), ",")
  _write(folder / "dev.tsv", list(_examples(21, 4, 2)), "\t")
  return small_model.write(folder, VOCABULARY) | {
    "train_file": folder / "train.csv",
    "dev_file": folder / "dev.tsv",
    "max_seq_length": 16,
    "train_batch_size": 8,
    "seed": 1,
    "learning_rate": 0.01,
    "num_train_epochs": 8,
  }


@pytest.fixture(scope="module", name="trained")
def _trained(given, tmp_path_factory):
  """Trains and evaluates once; returns the output folder and the log."""
  flags = given | {"eval_steps": 20, "keep_best": True}
  flags |= {"do_train": True, "do_eval": True}
  return shared.trained(tmp_path_factory, "run_swag", **flags)


def test_a_model_trained_with_three_endings_chooses_among_four(trained):
  output, log = trained
  results = programs.results(output)
  assert sorted(results) == ["eval_accuracy", "eval_loss", "global_step"]
  assert results["eval_accuracy"] > 0.9
  best = json.loads((output / "best" / "best.json").read_text())
  # 80 rows / 8 * 8 epochs are 80 steps. The best step may be an earlier one.
  assert (best["metric"], best["evaluated"]) == ("eval_accuracy", 80)
  assert best["value"] == pytest.approx(results["eval_accuracy"])
  assert best["step"] == results["global_step"]
  for text in ("step 80 of 80, loss", "ending0", "ending3"):
    assert text in log
  header, *judged = programs.table(output / "eval_predictions.tsv")
  assert header[1:6] == ["sent1", "sent2", "choices", "label", "prediction"]
  assert header[-1] == "is_right"
  assert np.mean([row[-1] == "1" for row in judged]) > 0.9


def test_a_saved_model_predicts_rows_without_labels(trained, given, tmp_path):
  output, _ = trained
  rows = list(_examples(11, 2, 3))
  expected = [row.pop("label") for row in rows]
  test_file = tmp_path / "test.jsonl"
  test_file.write_text("\n".join(map(json.dumps, rows)))
  flags = given | {"output_dir": output, "test_file": test_file}
  del flags["train_file"], flags["dev_file"]
  programs.run("run_swag", **flags, do_predict=True, predict_batch_size=3)
  header, *named = programs.table(output / "test_predictions.tsv")
  assert header == ["number", "prediction", "text", "ending0", "ending1"]
  result = [row[1] for row in named]
  assert len(result) == 11
  assert np.mean(np.equal(result, expected)) > 0.9


@pytest.mark.slow
def test_the_recipe_passes_a_dry_run(given):
  programs.check_dry_run("run_swag", "fine_tuning/swag", **given)
