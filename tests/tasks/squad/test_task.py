"""Data of run_squad.py: a dry run's limit, and files without any token."""

import json
from types import SimpleNamespace

import pytest

from cli.arguments import Arguments
from tasks.squad import examples, task
from tests.serving import tasks


def _args(folder, context, number):
  """Flags to predict `number` questions about a context."""
  (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n")
  answers = [{"text": "b", "answer_start": 2}]
  questions = [
    {"id": str(i), "question": "a", "answers": answers} for i in range(number)
  ]
  paragraph = {"context": context, "qas": questions}
  path = folder / "squad.json"
  path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
  return Arguments(
    predict_file=str(path),
    output_dir=str(folder),
    vocab_file=str(folder / "vocab.txt"),
    **{"max_seq_length": 8, "max_query_length": 4, "doc_stride": 2},
    **{"do_lower_case": True, "version_2_with_negative": False},
    **{"num_workers": 1, "dynamic_padding": False, "dry_run": False},
    **{"n_best_size": 2, "max_answer_length": 3, "export_top_k": 0},
    **{"f1_unit": "word"},
    **{"null_score_diff_threshold": None, "predict_batch_size": 8},
    **{"ensemble": 1, "keep_best": False},
    **{"use_tpu": False, "distribution_strategy": None, "jit_compile": None},
  )


def _eval_data(args):
  return task.eval_data(args, examples.read_examples([args.predict_file]))


def test_a_limit_is_one_of_questions_and_of_what_is_scored(
  tmp_path, monkeypatch
):
  monkeypatch.setattr(task.arguments, "max_examples", lambda args: 2)
  result = _eval_data(_args(tmp_path, "a b", 5))

  assert [example.qas_id for example in result.questions] == ["0", "1"]
  assert len(result.examples) == 2
  assert [example.answer_texts for example in result.questions] == [["b"]] * 2


def test_the_threshold_kept_is_that_of_the_best_checkpoint(tmp_path):
  args = _args(tmp_path, " \u200b ", 1).replace(version_2_with_negative=True)
  data, best = _eval_data(args), tmp_path / "best" / "best.json"
  best.parent.mkdir()

  def is_written(value, in_training=True, ensemble=1, **changes):
    record = {"metric": "best_f1", "value": value, "step": 1, "evaluated": 1}
    best.write_text(json.dumps(record))
    changed = args.replace(ensemble=ensemble, **changes)
    scores = task.predict(changed, None, data, in_training)
    assert scores["best_f1"] == 0.0
    suffix = "_ensemble" if ensemble > 1 else ""
    path = tmp_path / f"null_score_diff_threshold{suffix}.txt"
    written = path.exists()
    path.unlink(missing_ok=True)
    return written

  assert not is_written(0.0, keep_best=True)
  assert is_written(-1.0, keep_best=True)
  assert is_written(0.0)
  assert is_written(0.0, in_training=False, keep_best=True)
  assert is_written(0.0, in_training=False, ensemble=3)


def test_questions_about_contexts_without_tokens_are_answered(tmp_path):
  args = _args(tmp_path, " \u200b ", 1)
  # There is nothing for the model to do.
  scores = task.predict(args, None, _eval_data(args))
  predictions = json.loads((tmp_path / "predictions.json").read_text())
  assert predictions == {"0": "empty"}
  assert scores == {"exact_match": 0.0, "f1": 0.0}


@pytest.mark.parametrize(
  ("version_2", "metric"), [(False, "f1"), (True, "best_f1")]
)
def test_epochs_count_questions_and_evaluations_write_answers(
  tmp_path, monkeypatch, version_2, metric
):
  args = _args(tmp_path, "a b a b a b a b a b", 3)
  args = args.replace(
    **{"version_2_with_negative": version_2, "do_train": True, "eval_steps": 5},
    train_file=args.predict_file,
  )
  trained = {}
  monkeypatch.setattr(
    task.fine_tuning,
    "train",
    lambda run, model, objective, source, **options: trained.update(options),
  )
  model = task.make_model(args, tasks.CONFIG)
  questions = examples.read_examples([args.train_file], True, version_2)
  dev_set, train_set = _eval_data(args), task.train_data(args, questions)
  assert len(train_set.examples) > len(train_set.questions) == 3
  assert train_set.path == f"{tmp_path}/train.tf_record"
  assert dev_set.path == f"{tmp_path}/eval.tf_record"
  task.train(SimpleNamespace(args=args), model, train_set, dev_set)
  assert (trained["num_examples"], trained["unit"]) == (3, "windows")
  assert (trained["metric"], trained["served_model"]) == (
    metric,
    task.served_model,
  )
  scores = trained["evaluate"](5)
  assert metric in scores
  assert len(json.loads((tmp_path / "predictions.json").read_text())) == 3
