"""Converts TriviaQA's release to SQuAD's format."""

import json

import pytest

from recipes import triviaqa
from storage import UserError
from tasks.squad.examples import read_examples


def _release(folder, **documents):
  """Writes a question about documents, in the format of the release."""
  answer = {"Value": "Ada Stone", "Aliases": ["A. Stone", "Stone", ""]}
  question = {"QuestionId": "tc_1", "Question": "Who?", "Answer": answer}
  question["EntityPages"] = [
    {"Filename": f"{name}.txt", "Title": name} for name in documents
  ]
  for name, text in documents.items():
    (folder / f"{name}.txt").write_text(text)
  (folder / "questions.json").write_text(json.dumps({"Data": [question]}))
  return str(folder / "questions.json"), str(folder), str(folder / "out.json")


def test_answers_are_searched_in_the_first_400_words(tmp_path):
  mill = "Millstones lay there.  ADA STONE\nbuilt it; Stone died."
  last, late = "word " * 399 + "Stone", "word " * 400 + "Stone"
  documents = {"Mill": mill, "Last": last, "Late": late, "Other": "Nobody."}
  paths = _release(tmp_path, **documents)
  assert triviaqa.convert(*paths) == 2
  first, last = read_examples([paths[-1]], is_training=True)
  assert (first.qas_id, first.answer.text) == ("tc_1--Mill.txt", "ADA STONE")
  assert (first.answer.start, first.answer.end) == (3, 4)
  assert (last.answer.text, len(last.doc_tokens)) == ("Stone", 400)


def test_unusable_files_are_named(tmp_path):
  paths = _release(tmp_path, Other="Nobody knows.")
  with pytest.raises(UserError, match=r"no document in .* has an answer"):
    triviaqa.convert(*paths)
  (tmp_path / "questions.json").write_text('{"data": []}')
  with pytest.raises(UserError, match=r"questions\.json is no file of Trivia"):
    triviaqa.convert(*paths)
