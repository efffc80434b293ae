"""SQuAD files with repeated ids, empty answers or no questions."""

import json

import pytest

from tasks.squad import examples


def _write(tmp_path, *questions):
  content = {"context": "A red boat.", "qas": list(questions)}
  path = tmp_path / "x.json"
  path.write_text(json.dumps({"data": [{"paragraphs": [content]}]}))
  return [str(path)]


def _question(name, text="boat", start=6):
  answers = [{"text": text, "answer_start": start}]
  return {"id": name, "question": "What?", "answers": answers}


@pytest.mark.parametrize("is_training", [False, True])
def test_repeated_ids_are_named(tmp_path, caplog, is_training):
  paths = _write(tmp_path, _question("q1"), _question("q2"), _question("q1"))
  with caplog.at_level("WARNING", logger="absl"):
    assert len(examples.read_examples(paths, is_training)) == 3
  assert "1 question id used more than once, such as q1; " in caplog.text
  assert ("trained on" in caplog.text) == is_training
  assert ("predictions have" in caplog.text) != is_training


def test_an_empty_answer_is_left_out_with_the_remedy(tmp_path, caplog):
  paths = _write(tmp_path, _question("q1"), _question("q2", ""))
  with caplog.at_level("WARNING", logger="absl"):
    assert len(examples.read_examples(paths, True, False)) == 1
  assert "the answer is empty" in caplog.text
  assert "is_impossible" in caplog.text


def test_a_file_without_questions_is_an_error(tmp_path):
  with pytest.raises(ValueError, match=r"x\.json has no questions"):
    examples.read_examples(_write(tmp_path), False, False)


@pytest.mark.parametrize(
  ("answers", "message"),
  [
    (["boat"], '"boat" is not an object with "text"'),
    ({"text": ["boat"]}, '"answers" is .* and not a list'),
    ([{"text": None}], '"text" is null and not a string'),
  ],
)
def test_answers_to_score_by_are_checked_before_a_prediction(
  tmp_path, answers, message
):
  paths = _write(
    tmp_path, _question("q1"), _question("q2") | {"answers": answers}
  )
  with pytest.raises(ValueError, match=f"x.json, question q2: {message}"):
    examples.read_examples(paths)


def test_unknown_answers_are_none(tmp_path):
  unknown = _question("q2") | {"answers": None}
  paths = _write(tmp_path, _question("q1"), unknown)
  result = [e.answer_texts for e in examples.read_examples(paths)]
  assert result == [["boat"], None]
