"""run_squad.py from the command line, on questions of our own."""

import json

import pytest

from data.vocab import SPECIAL_TOKENS
from tests import programs, small_model

CONTEXT = "Ann has a red boat . Ben has a blue kite . Cy has a green drum ."
OWNERS = {"ann": "red boat", "ben": "blue kite", "cy": "green drum"}
WORDS = "what has a . ? ann ben cy red boat blue kite green drum".split()
VOCABULARY = [*SPECIAL_TOKENS, *WORDS]


def _questions(**more):
  return [
    {
      "id": f"q-{owner}",
      "question": f"What has {owner} ?",
      "answers": [{"text": text, "answer_start": CONTEXT.index(text)}],
    }
    | more
    for owner, text in OWNERS.items()
  ]


def _one_by_one():
  """Yields a sentence for each question, so that answers are soon learned."""
  sentences = CONTEXT.replace(". ", ".|").split("|")
  for sentence, question in zip(sentences, _questions(), strict=True):
    [answer] = question["answers"]
    answer["answer_start"] = sentence.index(answer["text"])
    yield {"context": sentence, "qas": [question]}


@pytest.fixture(name="flags")
def _flags(tmp_path):
  none = {"id": "q-none", "question": "What kite has Ann ?", "answers": []}
  none["is_impossible"] = True
  questions = [*_questions(is_impossible=False), none]
  for name, paragraphs in (
    ("v1", list(_one_by_one())),
    ("v2", [{"context": CONTEXT, "qas": questions}]),
  ):
    data = {"data": [{"title": "t", "paragraphs": paragraphs}]}
    (tmp_path / f"{name}.json").write_text(json.dumps(data))
  sizes = {"num_attention_heads": 4, "max_position_embeddings": 32}
  return small_model.write(tmp_path, VOCABULARY, **sizes) | {
    "max_seq_length": 32,
    "max_query_length": 8,
    "doc_stride": 8,
    "train_batch_size": 2,
    "seed": 1,
  }


def _run(flags, **more):
  return programs.run("run_squad", **flags | more)


def _load(path):
  return json.loads(path.read_text())


def test_a_model_learns_answers_and_scores(flags, tmp_path):
  output, file = tmp_path / "out", tmp_path / "v1.json"
  more = {"num_train_epochs": 40, "learning_rate": 0.01, "train_file": file}
  predict = {"do_predict": True, "predict_file": file, "output_dir": output}
  _run(flags, **more, **predict, do_train=True)
  answers = _load(output / "predictions.json")
  assert answers == {f"q-{k}": v for k, v in OWNERS.items()}
  scores = {"exact_match": 100.0, "f1": 100.0}
  assert _load(output / "squad_scores.json") == scores
  for name in ("train.tf_record", "eval.tf_record", "nbest_predictions.json"):
    assert (output / name).exists()
  header, *judged = programs.table(output / "eval_predictions.tsv")
  assert header[1:5] == ["question", "context", "label", "prediction"]
  assert {row[3]: row[4] for row in judged} == {
    name: name for name in OWNERS.values()
  }
  assert (output / "run.html").exists()
  [*_, evaluated] = (output / "metrics.jsonl").read_text().splitlines()
  assert json.loads(evaluated)["eval_f1"] == 100.0
  # The checkpoint is enough, without right answers.
  bare = _load(file)
  for paragraph in bare["data"][0]["paragraphs"]:
    del paragraph["qas"][0]["answers"]
  (tmp_path / "bare.json").write_text(json.dumps(bare))
  predict |= {"predict_file": tmp_path / "bare.json"}
  assert "no scores" in _run(flags, **predict)
  assert _load(output / "predictions.json") == answers


@pytest.mark.slow
def test_version_2_saves_the_best_threshold(flags, tmp_path):
  output, file = tmp_path / "out", tmp_path / "v2.json"
  flags |= {"output_dir": output, "version_2_with_negative": True}
  flags |= {"do_predict": True, "predict_file": file}
  train = {"do_train": True, "train_file": file, "num_train_epochs": 5}
  _run(flags, **train, dynamic_padding=True, group_by_length=True)
  odds = _load(output / "null_odds.json")
  assert len(odds) == 4
  stored = float((output / "null_score_diff_threshold.txt").read_text())
  scores = _load(output / "squad_scores.json")
  assert stored in (scores["best_f1_thresh"], min(odds.values()) - 1)
  # Several windows for each question are combined.
  log = _run(flags, max_seq_length=16, doc_stride=4)
  assert "null_score_diff_threshold.txt" in log


@pytest.mark.slow
def test_the_recipe_passes_a_dry_run(flags, tmp_path):
  files = dict.fromkeys(("train_file", "predict_file"), tmp_path / "v2.json")
  programs.check_dry_run("run_squad", "fine_tuning/squad_2.0", **flags, **files)
