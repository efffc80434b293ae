"""run_classifier.py as a command: runs from training to exports, sweeps."""

import json
import random

import numpy as np
import pytest

from data.vocab import SPECIAL_TOKENS
from predictor import Predictor
from tests import programs, shared, small_model
from tests.training import toy

NEUTRAL = ("the", "a", "film", "plot", "cast", "was", "is", "very", "quite")
GOOD, BAD = ("good", "fine"), ("bad", "dull")
VOCABULARY = [*SPECIAL_TOKENS, *NEUTRAL, *GOOD, *BAD]
EVERYTHING = dict.fromkeys(
  ("do_train", "do_eval", "do_predict", "do_export"), True
)


def _run(**flags):
  return programs.run("run_classifier", **flags)


def _sentences(number, seed):
  """Yields pairs: a text, and True if the text is praise.

  Two words in each text decide. With --learning_rate=0.005, a model learns the
  words from any initial values and on any processor.
  """
  rng = random.Random(seed)
  for _ in range(number):
    praise = rng.random() < 0.5
    words = rng.choices(NEUTRAL, k=rng.randint(1, 2))
    for word in rng.choices(GOOD if praise else BAD, k=2):
      words.insert(rng.randrange(len(words) + 1), word)
    yield " ".join(words), praise


def _probabilities(folder):
  """Returns the probabilities in test_results.tsv, [N, L]."""
  return np.array(programs.table(folder / "test_results.tsv"), float)


def _write(path, *rows):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))


@pytest.fixture(scope="module", name="given")
def _given(tmp_path_factory):
  """Writes a model's files; returns flags of run_classifier.py."""
  folder = tmp_path_factory.mktemp("model")
  changes = {"max_position_embeddings": toy.T, "type_vocab_size": 2}
  changes |= {"initializer_range": 0.2}
  return small_model.write(folder, VOCABULARY, **changes) | {
    "max_seq_length": toy.T,
    "train_batch_size": 8,
    "seed": 1,
    "learning_rate": 0.005,
    "num_train_epochs": 5,
  }


@pytest.fixture(scope="module", name="sst")
def _sst(given, tmp_path_factory):
  """Writes files of SST-2 with made-up texts; returns flags."""
  folder = tmp_path_factory.mktemp("SST-2")
  for name, number in (("train", 160), ("dev", 19)):
    rows = [(text, int(good)) for text, good in _sentences(number, name)]
    _write(folder / f"{name}.tsv", ("sentence", "label"), *rows)
  rows = enumerate(text for text, _ in _sentences(11, "test"))
  _write(folder / "test.tsv", ("index", "sentence"), *rows)
  return given | {"task_name": "sst-2", "data_dir": folder}


@pytest.fixture(scope="module", name="trained")
def _trained(sst, tmp_path_factory):
  """Runs all stages once; returns the output folder and the log."""

  def train(output):
    flags = sst | EVERYTHING | {"output_dir": output}
    return _run(**flags, export_dir=output / "export", fused=True)

  return shared.once(tmp_path_factory, "run_classifier", train)


def test_a_run_trains_and_evaluates(trained):
  output, log = trained
  results = programs.results(output)
  assert results.keys() == {"eval_accuracy", "eval_loss", "global_step", "loss"}
  assert results["global_step"] == 100  # 160 texts / 8 * 5 epochs
  assert results["eval_accuracy"] > 0.9
  assert "step 100 of 100, loss" in log
  assert "precision    recall  f1-score   support" in log
  assert not (output / "labels.txt").exists()  # the task fixes the labels


def test_eval_predictions_agree_with_the_accuracy(trained):
  output, _ = trained
  header, *judged = programs.table(output / "eval_predictions.tsv")
  assert header[:4] == ["id", "text", "label", "prediction"]
  right = np.mean([row[2] == row[3] for row in judged])
  assert right == pytest.approx(programs.results(output)["eval_accuracy"])
  assert "calibration" in (output / "run.html").read_text()


def test_the_three_files_of_predictions_agree(trained):
  output, _ = trained
  header, *rows = programs.table(output / "SST-2.tsv")
  assert header == ["index", "prediction"]
  result = [row[1] for row in rows]
  expected = [str(int(good)) for _, good in _sentences(11, "test")]
  assert np.mean(np.equal(result, expected)) > 0.9
  _, *named = programs.table(output / "test_predictions.tsv")
  assert [row[1] for row in named] == result
  assert [str(i) for i in _probabilities(output).argmax(axis=1)] == result


def test_texts_with_several_labels_are_learned_and_predicted(given, tmp_path):
  data, output = tmp_path / "data", tmp_path / "output"
  for name, number in (("train", 160), ("dev", 30)):
    rows = [
      (text, "praise|film" if praise else "")
      for text, praise in _sentences(number, name)
    ]
    _write(data / f"{name}.tsv", ("text", "label"), *rows)
  texts = [text for text, _ in _sentences(9, "test")]
  _write(data / "test.tsv", ("text",), *((text,) for text in texts))
  flags = given | {"task_name": "tsv", "data_dir": data, "multi_label": True}
  flags |= {"class_weights": "balanced", "keep_best": True, "eval_steps": 50}
  flags |= {"do_train": True, "do_predict": True}
  assert "class weights: film " in _run(**flags, output_dir=output)
  results = programs.results(output)
  names = "loss macro_f1 macro_f1_at_0.5 micro_f1 micro_f1_at_0.5".split()
  names = {f"eval_{name}" for name in names}
  assert results.keys() == names | {"global_step", "loss"}
  assert results["eval_micro_f1"] > 0.9
  record = json.loads((output / "best" / "best.json").read_text())
  assert record["metric"] == "eval_micro_f1"
  assert record["value"] == pytest.approx(results["eval_micro_f1"])
  table = programs.table(output / "thresholds.tsv")
  names, thresholds = zip(*table, strict=True)
  assert names == ("film", "praise")
  header, *rows = programs.table(output / "test_predictions.tsv")
  assert header == ["guid", "prediction", *names]
  for _, prediction, *probs in rows:
    pairs = zip(names, probs, thresholds, strict=True)
    expected = [name for name, p, t in pairs if float(p) >= float(t)]
    assert prediction == "|".join(expected)
  answers = Predictor(output)(texts)
  assert ["|".join(a["predicted"]) for a in answers] == [r[1] for r in rows]
  written = np.array([row[2:] for row in rows], float)
  result = [answer["probabilities"] for answer in answers]
  np.testing.assert_allclose(result, written, atol=1e-5)
  with pytest.raises(ValueError, match="--multi_label=False, but the head"):
    Predictor(output, multi_label=False)


@pytest.mark.slow
def test_a_model_with_windows_reads_long_texts_to_their_end(sst, tmp_path):
  data, output = tmp_path / "data", tmp_path / "output"
  for name, number in (("train", 160), ("dev", 30)):
    rows = [  # no word in the first windows says whether a text is praise
      ("the " * (8 + 5 * (i % 3)) + text, int(praise))
      for i, (text, praise) in enumerate(_sentences(number, name))
    ]
    _write(data / f"{name}.tsv", ("sentence", "label"), *rows)
  texts = [text for text, _ in rows]
  _write(data / "test.tsv", ("index", "sentence"), *enumerate(texts))
  flags = sst | {"data_dir": data, "window_pooling": "max"}
  flags |= {"long_text": "windows", "max_seq_length": 6, "max_text_length": 40}
  flags |= {"output_dir": output, "export_dir": output / "export"}
  _run(**flags | EVERYTHING)
  assert programs.results(output)["eval_accuracy"] > 0.9
  flags |= {"export_format": "tflite", "export_dir": output / "tflite"}
  _run(**flags, do_export=True)
  for folder in (output, output / "export", output / "tflite"):
    result = [answer["probabilities"] for answer in Predictor(folder)(texts)]
    np.testing.assert_allclose(result, _probabilities(output), atol=1e-5)


@pytest.mark.slow
def test_a_model_has_the_same_scores_on_two_devices_as_on_one(sst, tmp_path):
  flags = sst | {"output_dir": tmp_path, "do_eval": True, "eval_batch_size": 4}
  flags["num_train_epochs"] = 0.1
  train = {"distribution_strategy": "mirrored", "do_train": True}
  scores = []
  for devices, more in ((2, train), (1, {})):
    log = _run(**flags, **more, num_cpu_devices=devices)
    assert f": {devices} replica(s)" in log
    scores.append(programs.results(tmp_path))
  # 19 rows are an odd number: two devices get different numbers of rows.
  assert scores[1] == pytest.approx(scores[0], abs=1e-4)


@pytest.mark.slow
def test_command_flags_repeats_a_sweep_and_each_trial(sst, tmp_path):
  flags = sst | {"learning_rate": "1e-3,5e-3", "num_train_epochs": 0.1}
  del flags["seed"]
  output, again = tmp_path / "out", tmp_path / "again"
  flags |= {"do_train": True, "do_eval": True, "do_predict": True}
  _run(**flags, output_dir=output)
  names = ("test_results.tsv", "sweep.tsv")
  programs.check_repeats("run_classifier", output, again, *names)
  trial, *_ = sorted(output.glob("rate_*"))
  again = tmp_path / "trial"
  programs.check_repeats("run_classifier", trial, again, fused=True)


@pytest.mark.parametrize(
  "recipes",
  [
    "mrpc",
    shared.slow("cola ablations/as_left_to_right_bilstm"),
    shared.slow("rte ablations/as_shallow"),
  ],
)
def test_recipes_pass_a_dry_run(sst, recipes):
  names = f"fine_tuning/{recipes}".split()
  programs.check_dry_run("run_classifier", *names, **sst)
