"""run_squad.py as its users call it, on questions of our own."""

import json

import pytest

from data.vocab import SPECIAL_TOKENS
from tests import programs, small_model

CONTEXT = "Ann has a red boat . Ben has a blue kite . Cy has a green drum ."
OWNERS = {"ann": "red boat", "ben": "blue kite", "cy": "green drum"}
WORDS = [
  *(*SPECIAL_TOKENS, "what", "has", "a", ".", "?"),
  *OWNERS,
  *" ".join(OWNERS.values()).split(),
]


def _questions(version_2):
  result = [
    {
      "id": f"q-{owner}",
      "question": f"What has {owner} ?",
      "answers": [{"text": text, "answer_start": CONTEXT.index(text)}],
    }
    | ({"is_impossible": False} if version_2 else {})
    for owner, text in OWNERS.items()
  ]
  if version_2:
    result.append(
      {
        "id": "q-none",
        "question": "What kite has Ann ?",
        "answers": [],
        "is_impossible": True,
      }
    )
  return result


def _one_by_one():
  """A sentence to each question: which words answer is soon learned."""
  sentences = CONTEXT.replace(". ", ".|").split("|")
  for sentence, question in zip(sentences, _questions(False), strict=True):
    [answer] = question["answers"]
    answer["answer_start"] = sentence.index(answer["text"])
    yield {"context": sentence, "qas": [question]}


@pytest.fixture(name="flags")
def _flags(tmp_path):
  paragraphs = {
    "v1": list(_one_by_one()),
    "v2": [{"context": CONTEXT, "qas": _questions(version_2=True)}],
  }
  for name, value in paragraphs.items():
    data = {"data": [{"title": "t", "paragraphs": value}]}
    (tmp_path / f"{name}.json").write_text(json.dumps(data))
  sizes = {"num_attention_heads": 4, "max_position_embeddings": 32}
  return small_model.write(tmp_path, WORDS, **sizes) | {
    "max_seq_length": 32,
    "max_query_length": 8,
    "doc_stride": 8,
    "train_batch_size": 2,
    "seed": 1,
  }


def _run(flags, **more):
  return programs.run("run_squad", **flags | more)


def test_learns_answers_and_scores(flags, tmp_path):
  output, file = tmp_path / "out", tmp_path / "v1.json"
  more = {"num_train_epochs": 40, "learning_rate": 0.01, "train_file": file}
  predict = {"do_predict": True, "predict_file": file, "output_dir": output}
  _run(flags, **more, **predict, do_train=True)
  answers = json.loads((output / "predictions.json").read_text())
  assert answers == {f"q-{k}": v for k, v in OWNERS.items()}
  scores = json.loads((output / "squad_scores.json").read_text())
  assert scores == {"exact_match": 100.0, "f1": 100.0}
  for name in ("train.tf_record", "eval.tf_record", "nbest_predictions.json"):
    assert (output / name).exists()
  [*_, evaluated] = (output / "metrics.jsonl").read_text().splitlines()
  assert json.loads(evaluated)["eval_f1"] == 100.0
  # From the checkpoint alone, and without right answers.
  bare = json.loads(file.read_text())
  for paragraph in bare["data"][0]["paragraphs"]:
    del paragraph["qas"][0]["answers"]
  (tmp_path / "bare.json").write_text(json.dumps(bare))
  predict |= {"predict_file": tmp_path / "bare.json"}
  assert "no scores" in _run(flags, **predict)
  assert json.loads((output / "predictions.json").read_text()) == answers


@pytest.mark.slow
def test_version_2_saves_the_best_threshold(flags, tmp_path):
  output = tmp_path / "out"
  more = {
    "output_dir": output,
    "version_2_with_negative": True,
    "do_predict": True,
    "predict_file": tmp_path / "v2.json",
  }
  train = {"do_train": True, "train_file": tmp_path / "v2.json"}
  train |= {"dynamic_padding": True, "group_by_length": True}
  _run(flags, **more, **train, num_train_epochs=5)
  odds = json.loads((output / "null_odds.json").read_text())
  assert len(odds) == 4
  stored = float((output / "null_score_diff_threshold.txt").read_text())
  scores = json.loads((output / "squad_scores.json").read_text())
  assert stored in (scores["best_f1_thresh"], min(odds.values()) - 1)
  # Several windows to each question, combined.
  flags |= {"max_seq_length": 16, "doc_stride": 4}
  assert "null_score_diff_threshold.txt" in _run(flags, **more)


@pytest.mark.slow
def test_a_dry_run_of_the_recipe(flags, tmp_path):
  files = dict.fromkeys(("train_file", "predict_file"), tmp_path / "v2.json")
  programs.check_dry_run("run_squad", "fine_tuning/squad_2.0", **flags, **files)
