"""The class Classification evaluates, predicts and serves, mostly for MNLI."""

import os

import numpy as np
import pytest
import tensorflow as tf

from runs import fine_tune
from serving.answers import sigmoid, softmax
from tasks.classification import examples, metrics, named_tasks, task
from tasks.classification.task import Classification
from tests import programs, shared
from tests.serving.tasks import CONFIG, T, check_ensemble, settings
from tests.tasks.classification.test_multi_label import several_labels
from tests.training import toy

WORDS = ("a", "b c", "d e a", "b a d c", "a a a a a", "e", "d d")
COLUMNS = ("index", "sentence1", "sentence2", "gold_label")
LABELS = ("neutral", "entailment", "contradiction")
MNLI = named_tasks.find("MNLI")
LOGITS = np.random.RandomState(1).standard_normal((7, 3)).astype(np.float32)


@pytest.fixture(name="args")
def _args(tmp_path):
  """Writes MNLI files of different sizes and values; returns flags."""
  for name, number in (
    ("train", 5),
    ("dev_matched", 7),
    ("dev_mismatched", 3),
    ("test_matched", 5),
    ("test_mismatched", 2),
  ):
    rows = [(str(i), name[-1], WORDS[i], LABELS[i % 3]) for i in range(number)]
    size = 3 if "test" in name else 4
    text = "".join("\t".join(row[:size]) + "\n" for row in (COLUMNS, *rows))
    (tmp_path / f"{name}.tsv").write_text(text)
  flags = {"task_name": "MNLI", "data_dir": str(tmp_path)}
  flags |= {"prediction_columns": ["sentence2"]}
  flags |= {"eval_batch_size": 4, "predict_batch_size": 3}
  return settings("run_classifier", tmp_path, **flags)


def _convert(args, kind):
  rows = named_tasks.read(MNLI, args.data_dir, [kind], args.prediction_columns)
  texts = Classification(args, rows, named=MNLI)
  return {split: texts.convert(split) for split in rows}


@pytest.fixture(name="batch_sizes")
def _batch_sizes(monkeypatch):
  """Makes LOGITS the outputs of any model; returns the sizes of batches."""
  sizes = []

  def outputs(_, records, size):
    sizes.append(size)
    return {"logits": LOGITS[: len(records.rows)]}

  monkeypatch.setattr(task.loop, "outputs", outputs)
  return sizes


def test_each_dev_file_has_separate_batches(args, batch_sizes, tmp_path):
  texts = Classification(args, {}, named=MNLI)
  sets = _convert(args, "dev")
  assert list(sets) == ["dev", "dev_mismatched"]
  result = fine_tune.evaluate(texts, None, sets, 17)
  assert batch_sizes == [4, 4]
  for split, part in sets.items():
    suffix = split.removeprefix("dev")
    assert part.path == f"{args.output_dir}/eval{suffix}.tf_record"
    logits = LOGITS[: len(part.rows)]
    labels = [MNLI.labels.index(row.label) for row in part.rows]
    losses = -np.log(softmax(logits))
    losses = losses[np.arange(len(labels)), labels]
    batches = [losses[i : i + 4].mean() for i in range(0, len(losses), 4)]
    expected = {
      "eval_accuracy": np.mean(logits.argmax(1) == labels),
      "eval_loss": losses.mean(),
      "loss": np.mean(batches),
    }
    if split == "dev":  # the mean of batches differs: one has 4 rows, one 3
      assert result == pytest.approx(expected, rel=1e-5)
      assert abs(expected["loss"] - expected["eval_loss"]) > 1e-4
    written = programs.results(tmp_path / "out", f"eval_results{suffix}.txt")
    expected["global_step"] = 17
    assert written == pytest.approx(expected, rel=1e-5)


def test_rows_of_each_test_file_are_predicted_in_the_order_of_the_file(
  args, batch_sizes, tmp_path
):
  classification = Classification(args, {}, named=MNLI)
  for split, part in _convert(args, "test").items():
    classification.predict(None, split, part, 17)
    suffix = split.removeprefix("test")
    assert part.path == f"{args.output_dir}/predict{suffix}.tf_record"
    logits = LOGITS[: len(part.rows)]
    assert batch_sizes.pop() == 3
    assert (tmp_path / "out" / f"test_results{suffix}.tsv").exists()
    path = tmp_path / "out" / f"test_predictions{suffix}.tsv"
    header, *rows = programs.table(path)
    assert header == ["guid", "prediction", *MNLI.labels, "sentence2"]
    assert [row[-1] for row in rows] == list(WORDS[: len(rows)])
    result = np.array([row[2:-1] for row in rows], float)
    np.testing.assert_allclose(result, softmax(logits), rtol=1e-5)
    names = [MNLI.labels[i] for i in logits.argmax(1)]
    assert [row[1] for row in rows] == names


def test_a_tpu_evaluates_only_full_batches(args):
  sizes = {}
  on_tpu = args.replace(use_tpu=True)
  full = on_tpu.replace(eval_batch_size=7, predict_batch_size=5)
  for kind in ("train", "dev", "test"):
    for flags in (args, on_tpu, full):
      for split, part in _convert(flags, kind).items():
        assert part.with_packing(8, packs=True).packing
        assert part.multiple == (0 if flags.use_tpu else 8)
        number = len(list(tf.data.TFRecordDataset(part.path)))
        sizes.setdefault(split, []).append(number)
  # Numbers of records: without a TPU, on a TPU, and on a TPU with `full` sizes.
  assert sizes == {
    "train": [5, 5, 5],
    "dev": [7, 8, 7],
    "dev_mismatched": [3, 4, 7],
    "test": [5, 6, 5],
    "test_mismatched": [2, 3, 5],
  }


def test_a_dry_run_reads_only_the_first_examples(args, monkeypatch):
  monkeypatch.setattr("runs.settings._DRY_RUN_EXAMPLES", 2)
  assert len(_convert(args, "dev")["dev"].rows) == 7
  assert len(_convert(args.replace(dry_run=True), "dev")["dev"].rows) == 2
  args = args.replace(num_workers=None)  # reaches a comparison, which raises
  with pytest.raises(TypeError, match="'<' not supported"):
    _convert(args, "dev")


def test_thresholds_in_output_dir_override_thresholds_of_init_checkpoint(
  args, tmp_path, monkeypatch
):
  start, out = (tmp_path / name for name in ("start", "out"))
  names = [str(start / "labels.txt")]
  monkeypatch.setattr(task.checks, "labels_file", lambda _: names[0])
  for folder, value in ((start, 0.25), (out, 0.75)):
    folder.mkdir()
    path = str(folder / "thresholds.tsv")
    metrics.save_thresholds(several_labels(*[value] * 3), path)

  def thresholds(**flags):
    kind = task.with_thresholds(args.replace(**flags), several_labels())
    return kind.thresholds

  assert thresholds() == (0.75,) * 3
  assert thresholds(ensemble=2) == (0.5,) * 3
  (out / "thresholds.tsv").unlink()
  assert thresholds() == (0.25,) * 3
  names[0] = None
  assert thresholds() == (0.5,) * 3


def test_a_served_model_cuts_long_texts_into_windows(args, tmp_path):
  path = str(tmp_path / "bert_config.json")
  CONFIG.to_json(path)
  flags = {"task_name": "SST-2", "long_text": "windows", "max_seq_length": 6}
  args = args.replace(bert_config_file=path, max_text_length=T + 8, **flags)
  served = task.served_model(args)
  assert served.answers.config.max_seq_length == T + 8
  ids = np.full((2, T + 8), 5)
  ids[1, -1] = 6  # beyond max_position_embeddings
  inputs = {"input_ids": ids, "input_mask": ids > 0, "segment_ids": ids * 0}
  first, second = np.asarray(served.model(inputs)["logits"])
  assert np.abs(first - second).max() > 1e-4
  with pytest.raises(ValueError, match="max_text_length=5"):
    task.served_model(args.replace(max_text_length=5))


def test_an_evaluation_fits_thresholds_or_reads_saved_thresholds(
  args, tmp_path, monkeypatch
):
  (tmp_path / "out").mkdir()
  logits = np.array([[2, -1, 0], [1, -3, 0.5], [-1, -1, 0.25]], np.float32)
  monkeypatch.setattr(task.loop, "outputs", lambda *_: {"logits": logits})
  names = [("joy", "woe"), ("joy",), ("woe",)]
  rows = [examples.TextExample("", "", label=label) for label in names]
  part = task.RecordDataset(rows, "", None, 8)

  def evaluate(named, fits, **flags):
    settings = args.replace(multi_label=True, do_train=fits, **flags)
    return Classification(settings, {}, named=named).evaluate(None, part)

  result = evaluate(several_labels(), fits=True)
  saved = programs.table(tmp_path / "out" / "thresholds.tsv")
  values = {name: float(value) for name, value in saved}
  assert values["wit"] == 0.5  # no text has the label
  assert sigmoid(-1) < values["joy"] < sigmoid(1)
  assert values["woe"] < sigmoid(0)
  # All three texts get woe, which two have: F1 is 2 * 2 / (3 + 2) = 0.8.
  assert result["eval_macro_f1"] == pytest.approx((1 + 0 + 0.8) / 3)
  path = tmp_path / "out" / "thresholds.tsv"
  metrics.save_thresholds(several_labels(1, 1, 1), str(path))
  assert evaluate(several_labels(), fits=False)["eval_macro_f1"] == 0
  shared.touch_checkpoint(tmp_path / "out", "model.ckpt-9")
  for time, is_new in ((9, False), (2**40, True)):
    os.utime(path, (time, time))
    trained = Classification(args.replace(multi_label=True), {}, named=None)
    assert trained.is_evaluated() == is_new
  evaluate(several_labels(), fits=True, ensemble=2)
  assert path.with_name("thresholds_ensemble_2.tsv").exists()
  path.unlink()
  # --keep_best saves no thresholds of a model that is not the best.
  (tmp_path / "out/best").mkdir()
  (tmp_path / "out/best/best.json").write_text('{"value": 1.5}')
  evaluate(several_labels(), fits=True, keep_best=True)
  assert not path.exists()
  toy.set_worker(monkeypatch, 1)  # only the chief writes
  assert evaluate(several_labels(), fits=True) == result
  assert not path.exists()


def test_judged_examples_have_float32_scores_and_labels_joined_by_bars(args):
  def judged(named, label, logits):
    rows = [examples.TextExample("", "a", "b", label)]
    [one] = task._judged(args, named, rows, np.array([logits], np.float32))
    return one.label, one.prediction

  sts_b = named_tasks.find("STS-B")
  assert judged(sts_b, "0.0028", [0.0027999]) == ("0.0028", "0.0027999")
  labels = several_labels(0.5, 0.5, 0.5)
  assert judged(labels, ("woe", "joy"), [1, 1, -1]) == ("woe|joy", "joy|wit")
  # A training may have diverged.
  assert judged(named_tasks.find("CoLA"), "1", [np.nan] * 2) == ("1", "0")


def test_ensembles_average_probabilities_or_scores(args):
  for kind, value in (
    (named_tasks.find("STS-B"), lambda logits: logits),
    (MNLI, softmax),
    (several_labels(), sigmoid),
  ):
    texts = Classification(args.replace(ensemble=2), {}, named=kind)
    check_ensemble(texts.make_model(CONFIG), [1, 4], value)
