"""TriviaQA's release to SQuAD's form."""

import json

import pytest

from recipes import triviaqa
from storage import UserError
from tasks.squad.examples import read_examples


def _release(folder, **documents):
  """A question about two documents, in the form of the release."""
  pages = [{"Filename": f"{name}.txt", "Title": name} for name in documents]
  question = {
    "QuestionId": "tc_1",
    "Question": "Who built the mill?",
    "Answer": {"Value": "Ada Stone", "Aliases": ["A. Stone", "Stone", ""]},
    "EntityPages": pages,
  }
  for name, text in documents.items():
    (folder / f"{name}.txt").write_text(text)
  (folder / "questions.json").write_text(json.dumps({"Data": [question]}))
  return str(folder / "questions.json"), str(folder), str(folder / "out.json")


def test_answers_are_searched_in_the_first_400_words(tmp_path):
  words = "word " * 399
  paths = _release(
    tmp_path,
    Mill="Millstones lay there.  ADA STONE\nbuilt it; Stone died.",
    Last=f"{words}Stone",
    Late=f"{words}word Stone",
    Other="Nobody knows.",
  )
  assert triviaqa.convert(*paths) == 2
  first, last = read_examples([paths[-1]], is_training=True)
  assert (first.qas_id, first.answer.text) == ("tc_1--Mill.txt", "ADA STONE")
  assert (first.answer.start, first.answer.end) == (3, 4)
  assert (last.answer.text, len(last.doc_tokens)) == ("Stone", 400)


def test_files_that_do_not_do_are_named(tmp_path):
  paths = _release(tmp_path, Other="Nobody knows.")
  with pytest.raises(UserError, match=r"no document in .* has an answer"):
    triviaqa.convert(*paths)
  (tmp_path / "questions.json").write_text('{"data": []}')
  with pytest.raises(
    UserError, match=r"questions\.json is no file of TriviaQA"
  ):
    triviaqa.convert(*paths)
