"""Each recipe has a header, and only flags of its program.

The tests of some programs make dry runs of recipes.
"""

import json
import shlex

import pytest

from recipes import table, triviaqa
from tasks.squad.examples import read_examples
from tests import programs

HEADERS = table.headers()


@pytest.mark.parametrize("name", HEADERS)
def test_each_recipe_has_a_title_and_flags_of_its_program(name):
  fields = HEADERS[name]
  assert all(fields.values())
  words = shlex.split(fields["Command"])
  assert words[:2] == ["python", fields["Program"]]
  assert f"--flagfile=recipes/{name}" in words
  known = programs.defaults(fields["Program"].removesuffix(".py"))
  text = (table.HERE / name).read_text()
  given = [line for line in text.splitlines() if line.startswith("--")]
  assert given
  for word in [*given, *words[2:]]:
    flag, _, value = word.removeprefix("--").partition("=")
    if flag == "flagfile":
      assert value.removeprefix("recipes/") in HEADERS
      continue
    is_negated = flag.removeprefix("no") in known and not value
    assert flag in known or is_negated, word


def test_the_readme_has_the_table_of_all_headers():
  assert (table.HERE / "README.md").read_text() == table.table()


# --- TriviaQA in the format of SQuAD ----------------------------------------


def test_triviaqa_answers_are_searched_in_the_first_400_words(tmp_path):
  # A document's first answer counts. "Millstones" has none, because answers are
  # whole words. In `late`, the answer is word 401.
  mill = "Millstones lay there.  ADA STONE\nbuilt it; Stone died."
  last, late = "word " * 399 + "Stone", "word " * 400 + "Stone"
  documents = {"Mill": mill, "Last": last, "Late": late, "Other": "Nobody."}
  answer = {"Value": "Ada Stone", "Aliases": ["A. Stone", "Stone", ""]}
  question = {"QuestionId": "tc_1", "Question": "Who?", "Answer": answer}
  question["EntityPages"] = [
    {"Filename": f"{name}.txt", "Title": name} for name in documents
  ]
  for name, text in documents.items():
    (tmp_path / f"{name}.txt").write_text(text)
  (tmp_path / "questions.json").write_text(json.dumps({"Data": [question]}))
  questions, output = (f"{tmp_path}/{n}.json" for n in ("questions", "out"))
  assert triviaqa.convert(questions, str(tmp_path), output) == 2
  first, last = read_examples([output], is_training=True)
  assert (first.qas_id, first.answer.text) == ("tc_1--Mill.txt", "ADA STONE")
  assert (first.answer.start, first.answer.end) == (3, 4)
  assert (last.answer.text, len(last.doc_tokens)) == ("Stone", 400)
