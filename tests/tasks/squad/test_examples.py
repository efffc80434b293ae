"""SQuAD files: words, answers, and mistakes in the files."""

import json

import pytest

from tasks.squad import examples as squad_examples

CONTEXT = "  The mill (built 1895) stood by\u00a0the\u202friver.\nIt burnt."


def question(text="Which?", **fields):
  return {"id": "q1", "question": text, **fields}


def answer(text, start=None):
  start = CONTEXT.index(text) if start is None else start
  return {"answers": [{"text": text, "answer_start": start}]}


def write(path, *questions, context=CONTEXT):
  paragraph = {"context": context, "qas": list(questions)}
  path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
  return str(path)


@pytest.fixture
def path(tmp_path):
  return tmp_path / "squad.json"


def read_one(path, fields, **settings):
  file = write(path, question(**fields))
  [one] = squad_examples.read_examples([file], True, **settings)
  return one


def test_words_end_only_at_five_kinds_of_whitespace(path):
  context = "a b\tc\rd\ne\u202ff\u00a0g\u3000h\u2028i \n j"
  file = write(path, question(), question(), context=context)
  first, second = squad_examples.read_examples([file])
  assert first.doc_tokens == [*"abcde", "f\u00a0g\u3000h\u2028i", "j"]
  assert first.doc_tokens is second.doc_tokens  # one list for the paragraph


@pytest.mark.parametrize(
  ("text", "start", "end"),
  [
    ("The", 0, 0),
    ("1895", 3, 3),
    ("mill (built", 1, 2),
    ("the\u202friver", 5, 6),
    ("river.\nIt", 6, 7),
    ("burnt.", 8, 8),
  ],
)
def test_answers_are_spans_of_words(path, text, start, end):
  expected = squad_examples.Answer(text, start, end)
  # SQuAD 1.1 ignores "is_impossible".
  for more in ({}, {"is_impossible": True}):
    assert read_one(path, answer(text) | more).answer == expected


def test_a_no_break_space_excludes_an_answer_but_a_leading_blank_does_not(path):
  # The word keeps the no-break space, the answer gets a blank.
  file = write(path, question(**answer("by\u00a0the")))
  assert squad_examples.read_examples([file], True) == []
  # The answer begins with a blank, before the first word.
  file = write(path, question(**answer(" on", 1)), context="  only")
  [one] = squad_examples.read_examples([file], True)
  assert one.answer == squad_examples.Answer(" on", 0, 0)


def test_unlocatable_answers_are_skipped_and_counted(path, caplog):
  good = question(**answer("mill"))
  leading = question(**answer("The", 1)) | {"id": "q2"}
  elsewhere = question(**answer("mill", 20)) | {"id": "q3"}
  empty = question(**answer("", 4)) | {"id": "q4"}
  file = write(path, leading, good, elsewhere, empty)
  examples = squad_examples.read_examples([file], True)
  assert [one.qas_id for one in examples] == ["q1"]
  assert "question q2: Could not find answer: '' vs. 'The'" in caplog.text
  assert "the answer is empty" in caplog.text
  assert "question q3: Could not find answer: '1895)' vs. 'mill'" in caplog.text
  assert "left out of training: 3 of 4 questions" in caplog.text


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({}, 'question q1: "answers" is missing'),
    ({"answers": []}, "question q1 has no answers.*is_impossible"),
    ({"answers": "mill"}, '"answers" is "mill" and not list'),
    ({"answers": ["mill"]}, '"mill" is not an object with "text"'),
    (answer("mill", 400), "4 characters with answer_start 400 is not within"),
    (answer("mill", -1), "answer_start -1 is not within the context of 53"),
    (answer("burnt.!", 47), "7 characters with answer_start 47 is not within"),
    (answer("mill", "6"), '"answer_start" is "6" and not int'),
    (answer("mill", True), '"answer_start" is true and not int'),
    (answer("mill", 6.0), '"answer_start" is 6.0 and not int'),
    ({"answers": [{"answer_start": 6}]}, 'q1: "text" is missing'),
    ({"is_impossible": "no"}, '"is_impossible" is "no" and not bool'),
  ],
)
def test_errors_in_answers_name_the_file_and_question(path, fields, message):
  with pytest.raises(ValueError, match=message) as caught:
    read_one(path, fields, version_2_with_negative="is_impossible" in fields)
  assert str(path) in str(caught.value)


PARAGRAPH = '{"data": [{"paragraphs": [{%s}]}]}'
QUESTION = PARAGRAPH % '"context": "", "qas": [{%s}]'


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("", "is empty; a SQuAD file is"),
    ("\n", "is empty"),
    ('{"data": [{"par', "is not JSON.*line 1 column 12.*fetch it again"),
    ('{"data": "\udcff"}', "byte 10 .0xff. is not UTF-8; convert.*CP949"),
    ("\x1f\udc8b", "is compressed"),
    ("{}\n{}\n", "is not JSON.*fetch it again; a SQuAD file is"),
    ('{"data": []}', "has no questions"),
    ("[1]", r'\[1\] is not an object with "data"'),
    ("{}", '"data" is missing; a SQuAD file is'),
    ('{"data": {}}', '"data" is {} and not list'),
    ('{"data": [3]}', 'article 0: 3 is not an object with "paragraphs"'),
    ('{"data": [{}]}', 'article 0: "paragraphs" is missing'),
    (PARAGRAPH % "", 'article 0, paragraph 0: "context" is missing'),
    (PARAGRAPH % '"context": null', '"context" is null and not str'),
    (PARAGRAPH % '"context": ""', 'article 0, paragraph 0: "qas" is missing'),
    (QUESTION % "", 'paragraph 0: "id" is missing'),
    (QUESTION % '"id": []', '"id" is .* and not str or int'),
    (QUESTION % '"id": "x"', 'question x: "question" is missing'),
  ],
)
def test_mistakes_in_squad_files_are_reported(path, content, message):
  path.write_bytes(content.encode("utf-8", "surrogateescape"))
  with pytest.raises(ValueError, match=message) as caught:
    squad_examples.read_examples([str(path)])
  assert str(path) in str(caught.value)


def test_half_of_a_surrogate_pair_is_replaced(path):
  file = write(path, question("Why \ud83d?"), context="mill \ud800 \U0001f600")
  [one] = squad_examples.read_examples([file])
  assert one.question == "Why \ufffd?"
  assert one.doc_tokens == ["mill", "\ufffd", "\U0001f600"]
  path.write_bytes(path.read_bytes().replace(b"\\ud83d", b"\xed\xa0\xbd"))
  [one] = squad_examples.read_examples([file])
  assert one.question == "Why \ufffd?"


def test_repeated_ids_are_reported_before_predictions(path, caplog):
  mill = question(**answer("mill"))
  squad_examples.read_examples([write(path, mill, mill | {"id": "q2"})])
  file = write(path, mill, mill | {"id": "q2"}, mill)
  assert len(squad_examples.read_examples([file], True)) == 3
  assert not caplog.text
  assert len(squad_examples.read_examples([file])) == 3
  assert "1 repeated ids, such as q1; predictions have only " in caplog.text
  assert "give each question its own id" in caplog.text


def test_answers_at_a_wrong_answer_start_are_counted(path, caplog):
  # White space may differ, and an answer may be a part of a word.
  right = "mill (built", "The  mill", "the river.", "895", " mill"
  starts = 6, 2, CONTEXT.index("the"), CONTEXT.index("895"), 5
  rows = [answer(*pair) for pair in zip(right, starts, strict=True)]
  file = write(path, *(question(**row) for row in rows))
  assert len(squad_examples.read_examples([file], True)) == 5
  assert not caplog.text
  # At the last answer_start, the words lack the answer, which is skipped.
  rows += [answer("mill", 5), answer("stood", 25), answer("mill", 12)]
  rows = [question(**row, id=f"q{i}") for i, row in enumerate(rows)]
  trained = squad_examples.read_examples([write(path, *rows)], True)
  assert [e.answer.start for e in trained[-2:]] == [0, 4]
  text = f"2 answers not at answer_start, such as in {path}, question q5: train"
  assert text in caplog.text


@pytest.mark.parametrize(
  ("answers", "message"),
  [
    (["mill"], '"mill" is not an object with "text"'),
    ({"text": ["mill"]}, '"answers" is .* and not list'),
    ([{"text": None}], '"text" is null and not str'),
  ],
)
def test_right_answers_are_checked_before_prediction(path, answers, message):
  file = write(path, question(**answer("mill")), question(answers=answers))
  with pytest.raises(ValueError, match=f"squad.json, question q1: {message}"):
    squad_examples.read_examples([file])


def test_questions_of_both_versions_are_trained_on(path):
  mill = answer("mill")
  questions = [
    mill,
    mill | {"is_impossible": False},
    {"answers": [], "is_impossible": True},
    mill | {"is_impossible": True},  # the answer is only plausible
  ]
  file = write(path, *(question(**fields) for fields in questions))
  examples = squad_examples.read_examples([file], True, True)
  assert [e.answer is None for e in examples] == [False, False, True, True]


@pytest.mark.parametrize(
  ("fields", "expected"),
  [
    ({}, None),
    ({"answers": None}, None),
    ({"answers": []}, []),
    ({"answers": [{"text": "", "answer_start": 0}]}, [""]),
    ({"answers": answer("mill")["answers"] * 2}, ["mill", "mill"]),
  ],
)
def test_an_empty_list_of_answers_differs_from_unknown_answers(
  path, fields, expected
):
  file = write(path, question(**fields))
  [example] = squad_examples.read_examples([file])
  assert example.answer_texts == expected
