"""The class Squad makes records, evaluates, predicts and exports."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from runs import fine_tune
from storage import UserError
from tasks.squad import examples, task
from tasks.squad.task import Squad
from tests import programs, shared
from tests.serving.tasks import CONFIG
from tests.training import toy


def _args(folder, context, number, answer="b"):
  """Writes `number` questions about a context; returns flags to predict."""
  (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n")
  bare = {"question": "a", "answers": [{"text": answer, "answer_start": 2}]}
  bare["answers"] *= bool(answer)
  questions = [bare | {"id": str(i)} for i in range(number)]
  path = folder / "squad.json"
  shared.write_squad(path, *questions, context=context)
  paths = {"predict_file": str(path), "output_dir": str(folder)}
  paths["vocab_file"] = str(folder / "vocab.txt")
  lengths = {"max_seq_length": 8, "max_query_length": 4, "doc_stride": 2}
  choice = {"n_best_size": 2, "max_answer_length": 3}
  return programs.arguments("run_squad", **paths, **lengths, **choice)


def _eval_data(args):
  questions = examples.read_examples([args.predict_file])
  return Squad(args, {"dev": questions}).convert("dev")


def _predict(args, data):
  """Predicts without a model: the context must have no tokens."""
  Squad(args, {}).predict(None, "dev", data, 7)


def _load(path):
  return json.loads(path.read_text())


def test_a_dry_run_reads_only_the_first_questions(tmp_path, monkeypatch):
  monkeypatch.setattr("runs.settings._DRY_RUN_EXAMPLES", 2)
  result = _eval_data(_args(tmp_path, "a b", 5).replace(dry_run=True))
  questions = [(one.qas_id, one.answer_texts) for one in result.examples]
  assert questions == [("0", ["b"]), ("1", ["b"])]
  assert len(result.rows) == 2


def test_a_dry_run_evaluates_first_questions_without_an_answer(tmp_path):
  args = _args(tmp_path, " \u200b ", 1, "")
  args = args.replace(dry_run=True, do_train=True, keep_best=True)
  assert Squad(args, {}).evaluate(None, _eval_data(args)) == {"f1": 0.0}


def test_the_saved_threshold_belongs_to_the_best_checkpoint(tmp_path):
  flags = {"version_2_with_negative": True, "do_train": True}
  args = _args(tmp_path, " \u200b ", 1).replace(**flags)
  data, best = _eval_data(args), tmp_path / "best" / "best.json"
  best.parent.mkdir()

  def is_written(value, in_training=True, ensemble=1, **changes):
    record = {"metric": "best_f1", "value": value, "step": 1, "evaluated": 1}
    best.write_text(json.dumps(record))
    changed = args.replace(ensemble=ensemble, **changes)
    if in_training:
      assert Squad(changed, {}).evaluate(None, data)["best_f1"] == 0.0
    else:
      _predict(changed, data)
    suffix = f"_ensemble_{ensemble}" if ensemble > 1 else ""
    path = tmp_path / f"null_score_diff_threshold{suffix}.txt"
    written = path.exists()
    path.unlink(missing_ok=True)
    return written

  assert not is_written(0.0, keep_best=True)
  assert is_written(-1.0, keep_best=True)
  assert is_written(0.0)
  assert is_written(0.0, in_training=False, keep_best=True)
  assert is_written(0.0, in_training=False, ensemble=3)


def test_only_the_chief_writes_the_scores_and_the_threshold_of_an_evaluation(
  tmp_path, monkeypatch
):
  args = _args(tmp_path, " \u200b ", 1).replace(version_2_with_negative=True)
  data, before = _eval_data(args), {*tmp_path.iterdir()}
  for index, number in ((1, 0), (0, 2)):
    toy.set_worker(monkeypatch, index)
    assert Squad(args, {}).evaluate(None, data)["best_f1"] == 0.0
    assert len({*tmp_path.iterdir()} - before) == number


@pytest.mark.parametrize(("answer", "is_scored"), [("b", True), ("", False)])
def test_only_files_with_answers_change_scores_and_threshold(
  tmp_path, caplog, answer, is_scored
):
  """A file without answers, a test set, removes scores of an earlier run."""
  args = _args(tmp_path, " \u200b ", 1, answer)
  args = args.replace(version_2_with_negative=True)
  threshold = tmp_path / "null_score_diff_threshold.txt"
  threshold.write_text("-3.5\n")
  (tmp_path / "squad_scores.json").write_text("{}")
  _predict(args, _eval_data(args))
  assert _load(tmp_path / "predictions.json") == {"0": ""}
  assert "the model answers none of 1 questions: train longer" in caplog.text
  assert (threshold.read_text() == "-3.5\n") != is_scored
  assert (tmp_path / "squad_scores.json").exists() == is_scored
  assert (tmp_path / "metrics.jsonl").exists() == is_scored


def test_a_prediction_writes_answers_and_logs_scores(tmp_path, caplog):
  args = _args(tmp_path, " \u200b ", 1, "empty")
  _predict(args, _eval_data(args))
  assert _load(tmp_path / "predictions.json") == {"0": "empty"}
  scores = {"exact_match": 100.0, "f1": 100.0}
  assert _load(tmp_path / "squad_scores.json") == scores
  logged = {"step": 7, "eval_exact_match": 100.0, "eval_f1": 100.0}
  assert _load(tmp_path / "metrics.jsonl") == logged
  assert "the model answers none of 1 questions" in caplog.text


def test_a_question_with_a_repeated_id_is_judged_once(tmp_path):
  args = _args(tmp_path, " \u200b ", 1)
  data = _eval_data(args)
  [last] = data.examples
  both = [last._replace(question="first"), last]
  data = dataclasses.replace(data, examples=both)
  [judged] = Squad(args, {}).predict(None, "dev", data, 7).judged
  assert judged.texts["question"] == "a"
  assert (judged.label, judged.prediction) == ("b", "empty")
  assert judged.is_right is False


# The prediction "empty" has five characters, and "empt" has four of these.
@pytest.mark.parametrize(("unit", "f1"), [("word", 0), ("character", 8 / 9)])
def test_an_evaluation_in_training_writes_no_predictions(tmp_path, unit, f1):
  args = _args(tmp_path, " \u200b ", 1, answer="empt").replace(f1_unit=unit)
  squad = Squad(args, {})
  scores = fine_tune.evaluate(squad, None, {"dev": _eval_data(args)}, 3)
  assert scores == {"exact_match": 0.0, "f1": pytest.approx(100 * f1)}
  assert not (tmp_path / "predictions.json").exists()
  assert _load(tmp_path / "metrics.jsonl")["step"] == 3


@pytest.mark.parametrize(
  ("answer", "unit", "is_reported"),
  [
    ("北京大学", "word", True),
    ("北京大学", "character", True),
    ("부산 대학교", "word", False),  # Korean has blanks between words
    ("a 北 b", "word", False),
    ("", "word", False),  # a file without answers
  ],
)
def test_answers_without_blanks_cause_a_warning(
  tmp_path, caplog, answer, unit, is_reported
):
  _eval_data(_args(tmp_path, "a b", 2, answer).replace(f1_unit=unit))
  text = f"squad.json: answers such as '{answer}' have no blanks between words"
  assert (text in caplog.text) == is_reported
  advises_flag = is_reported and unit == "word"
  assert ("--f1_unit=character scores" in caplog.text) == advises_flag
  caplog.clear()
  answer = examples.Answer(answer, 0, 0)
  question = examples.SquadExample("1", "?", ["a"], answer)
  args = _args(tmp_path, "a b", 2).replace(f1_unit=unit)
  args = args.replace(train_file=args.predict_file)
  Squad(args, {"train": [question]}).convert("train")
  assert (text in caplog.text) == is_reported
  assert "--f1_unit" not in caplog.text  # a training scores nothing


def test_each_window_becomes_a_record(tmp_path):
  args = _args(tmp_path, "a b a b a b a b a b", 5)
  args = args.replace(train_file=args.predict_file)
  questions = examples.read_examples([args.train_file], True)
  train_set = Squad(args, {"train": questions}).convert("train")
  dev_set = _eval_data(args)
  assert Squad(args, {}).num_examples(train_set) == 5
  assert len(dev_set.rows) > len(dev_set.examples) == 5
  assert len([*tf.data.TFRecordDataset(train_set.path)]) == len(dev_set.rows)
  assert train_set.rows == []  # only an evaluation needs windows in memory
  assert train_set.examples == examples.training_order(questions) != questions
  assert [one.qas_id for one in dev_set.examples] == [*"01234"]
  with pytest.raises(TypeError, match="'<' not supported"):
    _eval_data(args.replace(num_workers=None))  # reaches a comparison
  # Without --dynamic_padding, all batches have max_seq_length.
  assert (train_set.multiple, dev_set.multiple) == (0, 0)
  args = args.replace(dynamic_padding=True, jit_compile=True)
  assert Squad(args, {"train": questions}).convert("train").multiple == 32
  assert "start_positions" in train_set.schema
  assert "start_positions" not in dev_set.schema
  assert train_set.path == f"{tmp_path}/train.tf_record"
  assert dev_set.path == f"{tmp_path}/eval.tf_record"


@pytest.mark.parametrize(("trims", "text"), [(True, "b"), (False, "empty")])
def test_padding_may_be_predicted_unless_batches_are_trimmed(
  tmp_path, monkeypatch, trims, text
):
  args = _args(tmp_path, "a b", 1).replace(dynamic_padding=trims)
  data = _eval_data(args)
  assert data.multiple == (8 if trims else 0)
  logits = np.arange(8.0)[None]  # largest for padding, then for [SEP] and b
  outputs = {"start_logits": logits, "end_logits": logits}
  monkeypatch.setattr(task.loop, "outputs", lambda *_: outputs)
  assert Squad(args, {}).answer(None, data).answers == {"0": text}


def test_an_export_saves_the_flags_that_choose_its_answers(tmp_path):
  path = str(tmp_path / "bert_config.json")
  CONFIG.to_json(path)
  args = _args(tmp_path, "a b", 1).replace(bert_config_file=path)
  args = args.replace(dynamic_padding=True, null_score_diff_threshold=-2.0)
  args = args.replace(export_top_k=1, version_2_with_negative=True)
  answers = task.served_model(args).answers
  assert answers.config.max_seq_length == 8
  lengths = {"max_seq_length": 8, "max_query_length": 4, "doc_stride": 2}
  choice = {"n_best_size": 2, "max_answer_length": 3, "export_top_k": 1}
  choice |= {"version_2_with_negative": True, "null_score_diff_threshold": -2.0}
  expected = {"windows": lengths, "decoding": choice, "dynamic_padding": True}
  assert answers.settings == expected


@pytest.mark.parametrize("of_start", [None, 0.0, 3.0])
@pytest.mark.parametrize("of_folder", [None, 0.0, 5.0])
@pytest.mark.parametrize("is_trained", [False, True])
def test_the_threshold_comes_from_the_folder_of_the_models_checkpoint(
  tmp_path, of_start, of_folder, is_trained
):
  """If output_dir has no checkpoint, the threshold of init_checkpoint wins."""
  for name, value in (("start", of_start), ("out", of_folder)):
    (tmp_path / name).mkdir()
    if value is not None:
      path = tmp_path / name / "null_score_diff_threshold.txt"
      path.write_text(f"{value}\n")
  (tmp_path / "start/x.index").touch()
  if is_trained:
    shared.touch_checkpoint(tmp_path / "out", "y")
  flags = {"output_dir": f"{tmp_path}/out", "version_2_with_negative": True}
  flags["init_checkpoint"] = f"{tmp_path}/start/x"
  args = programs.arguments("run_squad", **flags)
  result = task.null_threshold(args)
  order = [of_folder] if is_trained else [of_start, of_folder]
  known = [value for value in order if value is not None]
  assert result == (known[0] if known else 0.0)
  for given in (0.0, -2.0):
    chosen = args.replace(null_score_diff_threshold=given)
    assert task.null_threshold(chosen) == given
  assert task.null_threshold(args.replace(version_2_with_negative=False)) == 0.0
  for name in ("start", "out"):
    (tmp_path / name / "null_score_diff_threshold.txt").write_text("-2,5\n")
  with pytest.raises(UserError, match=r"d\.txt must be a number, as in -2\.5"):
    task.null_threshold(args)
