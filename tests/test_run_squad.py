"""run_squad.py as a command, on a few easy questions."""

import json
import shutil

import pytest

from data.vocab import SPECIAL_TOKENS
from tests import programs, shared, small_model

CONTEXT = "Ann has a red boat . Ben has a blue kite . Cy has a green drum ."
OWNERS = {"ann": "red boat", "ben": "blue kite", "cy": "green drum"}
WORDS = "what has a . ? ann ben cy red boat blue kite green drum".split()


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


@pytest.fixture(scope="module", name="given")
def _given(tmp_path_factory):
  """Writes files of SQuAD 1.1 and 2.0 and a model; returns flags."""
  folder = tmp_path_factory.mktemp("given")
  none = {"id": "q-none", "question": "What kite has Ann ?", "answers": []}
  none["is_impossible"] = True
  questions = [*_questions(is_impossible=False), none]
  sentences = []  # a paragraph of one sentence for each question
  texts = CONTEXT.replace(". ", ".|").split("|")
  for text, question in zip(texts, _questions(), strict=True):
    [answer] = question["answers"]
    answer["answer_start"] = text.index(answer["text"])
    sentences.append({"context": text, "qas": [question]})
  for name, paragraphs in (
    ("v1", sentences),
    ("v2", [{"context": CONTEXT, "qas": questions}]),
  ):
    data = {"data": [{"title": "t", "paragraphs": paragraphs}]}
    (folder / f"{name}.json").write_text(json.dumps(data))
  sizes = {"num_attention_heads": 4, "max_position_embeddings": 32}
  files = dict.fromkeys(("train_file", "predict_file"), folder / "v1.json")
  return small_model.write(folder, [*SPECIAL_TOKENS, *WORDS], **sizes) | {
    **files,
    "max_seq_length": 32,
    "max_query_length": 8,
    "doc_stride": 8,
    "train_batch_size": 2,
    "seed": 1,
    "do_predict": True,
  }


@pytest.fixture(scope="module", name="trained")
def _trained(given, tmp_path_factory):
  """Trains and predicts once; returns the output folder."""
  flags = given | {"num_train_epochs": 40, "learning_rate": 0.01}
  flags["do_train"] = True
  output, _ = shared.trained(tmp_path_factory, "run_squad", **flags)
  return output


def _load(path):
  return json.loads(path.read_text())


ANSWERS = {f"q-{owner}": text for owner, text in OWNERS.items()}


def test_a_model_learns_every_answer_of_the_training_file(trained):
  assert _load(trained / "predictions.json") == ANSWERS
  scores = {"exact_match": 100.0, "f1": 100.0}
  assert _load(trained / "squad_scores.json") == scores
  [*_, evaluated] = (trained / "metrics.jsonl").read_text().splitlines()
  assert json.loads(evaluated)["eval_f1"] == 100.0


def test_a_table_and_a_page_show_right_and_predicted_answers(trained):
  header, *judged = programs.table(trained / "eval_predictions.tsv")
  assert header[1:5] == ["question", "context", "label", "prediction"]
  expected = [(text, text) for text in OWNERS.values()]
  assert sorted((row[3], row[4]) for row in judged) == sorted(expected)
  assert {row[-1] for row in judged} == {"1"}  # is_right
  assert (trained / "run.html").exists()


def test_a_saved_model_answers_without_training_again(trained, given, tmp_path):
  output = shutil.copytree(trained, tmp_path / "run")
  bare = _load(given["predict_file"])
  for paragraph in bare["data"][0]["paragraphs"]:
    del paragraph["qas"][0]["answers"]
  (tmp_path / "bare.json").write_text(json.dumps(bare))
  flags = given | {"predict_file": tmp_path / "bare.json"}
  log = programs.run("run_squad", **flags, output_dir=output)
  assert "no scores" in log
  assert "answers none" not in log
  assert _load(output / "predictions.json") == ANSWERS


@pytest.mark.slow
def test_squad_2_saves_the_best_threshold(given, tmp_path):
  file = given["predict_file"].with_name("v2.json")
  flags = given | dict.fromkeys(("train_file", "predict_file"), file)
  flags |= {"output_dir": tmp_path, "version_2_with_negative": True}
  train = {"do_train": True, "num_train_epochs": 5, "group_by_length": True}
  programs.run("run_squad", **flags, **train, dynamic_padding=True)
  assert len(_load(tmp_path / "null_odds.json")) == 4
  stored = float((tmp_path / "null_score_diff_threshold.txt").read_text())
  assert stored == _load(tmp_path / "squad_scores.json")["best_f1_thresh"]
  # Several windows for each question are combined.
  flags |= {"max_seq_length": 16, "doc_stride": 4}
  assert "null_score_diff_threshold.txt" in programs.run("run_squad", **flags)


@pytest.mark.slow
def test_the_recipe_passes_a_dry_run(given):
  file = given["predict_file"].with_name("v2.json")
  flags = given | dict.fromkeys(("train_file", "predict_file"), file)
  programs.check_dry_run("run_squad", "fine_tuning/squad_2.0", **flags)
