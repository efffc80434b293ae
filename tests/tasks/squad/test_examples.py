"""SQuAD files: words, answers, and mistakes in the files."""

from functools import partial

import pytest

from tasks.squad import examples as squad_examples
from tests import shared

CONTEXT = "  The mill (built 1895) stood by\u00a0the\u202friver.\nIt burnt."
write = partial(shared.write_squad, context=CONTEXT)


def question(text="Which?", **fields):
  return {"id": "q1", "question": text, **fields}


def answer(text, start=None):
  start = CONTEXT.index(text) if start is None else start
  return {"answers": [{"text": text, "answer_start": start}]}


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
  empty = question(**answer("", 400)) | {"id": "q4"}
  file = write(path, leading, good, elsewhere, empty)
  examples = squad_examples.read_examples([file], True)
  assert [one.qas_id for one in examples] == ["q1"]
  assert "question q2: Could not find answer: '' vs. 'The'" in caplog.text
  assert "question q3: Could not find answer: '1895)' vs. 'mill'" in caplog.text
  assert "question q4: Could not find answer: 'burnt.' vs. ''" in caplog.text
  assert "left out of training: 3 of 4 questions" in caplog.text


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({}, r'expected "answers" \(list\) in {"id": "q1"'),
    ({"answers": []}, "has no answers; for training.*is_impossible"),
    ({"answers": ["mill"]}, r'expected "text" \(str\) in "mill"'),
    (answer("mill", 400), "4 characters with answer_start 400 is not within"),
    (answer("mill", -1), "answer_start -1 is not within the context of 53"),
    (answer("burnt.!", 47), "7 characters with answer_start 47 is not within"),
    (answer("mill", True), r'expected "answer_start" \(int\)'),
    ({"is_impossible": "False"}, r'expected "is_impossible" \(bool\) in'),
  ],
)
def test_errors_in_answers_name_the_file_and_question(path, fields, message):
  with pytest.raises(ValueError, match=f"squad.json, question q1.*{message}"):
    read_one(path, fields, version_2_with_negative="is_impossible" in fields)


def test_right_answers_are_checked_before_prediction(path):
  file = write(path, question(answers=[{"text": None}]))
  with pytest.raises(ValueError, match=r'question q1: expected "text" \(s'):
    squad_examples.read_examples([file])


PARAGRAPH = '{"data": [{"paragraphs": [{%s}]}]}'
QUESTION = PARAGRAPH % '"context": "", "qas": [{%s}]'


@pytest.mark.parametrize(
  ("content", "message"),
  [
    (b"", "is not JSON in UTF-8 .Expecting value.*; a SQuAD file is"),
    (b'{"data": "\xff"}', "is not JSON in UTF-8 .*byte 0xff in position 10"),
    (b"[" * 100_000, "is not JSON.*recursion"),
    (b'{"data": []}', "has no questions; a SQuAD file is"),
    (b"[1]", r'expected "data" \(list\) in \[1\]; a SQuAD file is'),
    (b'{"data": [{}]}', r'article 0: expected "paragraphs" \(list\) in {}'),
    (PARAGRAPH % "", 'article 0, paragraph 0: expected "context"'),
    (PARAGRAPH % '"context": ""', 'article 0, paragraph 0: expected "qas"'),
    (QUESTION % '"id": []', r'expected "id" \(str or int\)'),
    (QUESTION % '"id": "x"', 'question x: expected "question"'),
  ],
)
def test_mistakes_in_squad_files_are_reported(path, content, message):
  path.write_bytes(content if isinstance(content, bytes) else content.encode())
  with pytest.raises(ValueError, match=message) as caught:
    squad_examples.read_examples([str(path)])
  assert str(path) in str(caught.value)


def test_half_a_surrogate_pair_is_replaced_and_a_byte_order_mark_dropped(path):
  file = write(path, question("Why \ud83d?"), context="mill \ud800 \U0001f600")
  path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
  [one] = squad_examples.read_examples([file])
  assert one.question == "Why \ufffd?"
  assert one.doc_tokens == ["mill", "\ufffd", "\U0001f600"]


def test_repeated_ids_are_reported_before_predictions(path, caplog):
  mill = question(**answer("mill"))
  squad_examples.read_examples([write(path, mill, mill | {"id": "q2"})])
  file = write(path, mill, mill | {"id": "q2"}, mill)
  assert len(squad_examples.read_examples([file], True)) == 3
  assert not caplog.text
  assert len(squad_examples.read_examples([file])) == 3
  assert "1 repeated question ids, such as q1; predictions have" in caplog.text


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
def test_no_answers_differ_from_unknown_answers(path, fields, expected):
  [example] = squad_examples.read_examples([write(path, question(**fields))])
  assert example.answer_texts == expected
