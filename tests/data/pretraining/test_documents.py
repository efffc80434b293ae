import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.pretraining import documents, instances, passages
from data.tokenization import FullTokenizer
from storage import UserError
from tests.data.pretraining.corpus import SILENT, VOCAB_FILE

PROSE = "Owls hunt. They\r hunt at\nnight. \r\n\t\r\n\rFoxes do, too. "


def _read(lines, layout="lines"):
  """Returns documents, as sentences of token ids, and counts of lines etc."""
  tokenizer, progress = FullTokenizer(VOCAB_FILE), SILENT()
  text_format = documents.TextFormat(layout)
  config = instances.InstanceConfig(5)
  config = instances.BuildConfig(tokenizer, config, 1, text_format)
  builder = instances.RecordBuilder(config)
  return builder.documents(lines, progress), progress.counts


def test_blank_lines_end_documents():
  # The control character \x01 is text without a token, and \x1c is a blank.
  lines = ["1", " 2 2 ", "", " \u3000", "3", "\x01", "\x1c", "\x01", "", "4"]
  result, counts = _read(lines)
  one, two, three, four = FullTokenizer(VOCAB_FILE).ids("1 2 3 4")
  assert result == [[[one], [two, two]], [[three]], [[four]]]
  expected = {"lines": 10, "tokens": 5, "documents": 3, "sentences": 4}
  assert counts == expected | {"dropped_lines": 2}


@pytest.mark.parametrize(
  ("layout", "sizes", "dropped", "cut"),
  [("lines", [[1, 2, 7], [1]], 0, 0), ("paragraphs", [[2, 5, 2]], 2, 1)],
)
def test_only_a_prose_text_loses_short_sentences_and_has_long_ones_divided(
  layout, sizes, dropped, cut
):
  # 1, 2 and 7 tokens, then a document of one token
  lines = ["the", "the river", "the " * 7, "", "the"]
  result, counts = _read(lines, layout)
  assert [[*map(len, document)] for document in result] == sizes
  assert (counts["dropped_lines"], counts["cut_lines"]) == (dropped, cut)


LINES = st.lists(st.sampled_from(["", "a", "b", " a ", "a b", "a  b", "\t"]))


@given(LINES)
def test_only_the_first_of_equal_documents_stays(lines):
  progress = SILENT()
  left = list(documents.drop_documents(lines, progress))
  # Blanks do not count, so compare the words of each line.
  before = [str([*map(str.split, d)]) for d in documents.split_documents(lines)]
  after = [str([*map(str.split, d)]) for d in documents.split_documents(left)]
  assert after == list(dict.fromkeys(before))
  assert progress.counts["dropped_documents"] == len(before) - len(after)


# --- paragraphs and articles ------------------------------------------------


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("Ore is rock.\n", "wiki, line 1: 'Ore is rock.' is not within <doc ...>"),
    ('{"text": "Ore."}\n{}\n', "wiki, line 2 has no text as 'text'"),
  ],
)
def test_files_that_are_not_articles_are_refused(tmp_path, text, message):
  (tmp_path / "wiki").write_text(text)
  with pytest.raises(UserError, match=message):
    list(passages.read_wikipedia(str(tmp_path / "wiki"), SILENT()))


def test_an_article_without_its_end_is_read_with_a_warning(tmp_path, caplog):
  text = "Ore is a rock that one digs out of hills."
  (tmp_path / "w").write_text(f"<doc>\n{text}\n" * 2)
  assert [*passages.read_wikipedia(f"{tmp_path}/w", SILENT())] == [[text]] * 2
  assert "w ends within an article" in caplog.text


# --- texts that make poor records -------------------------------------------


def _doubts(lines, is_prose=False, max_words=16):
  return list(documents.doubts(lines, is_prose, list, max_words))


LONG = ["o" * 17, *["o" * 16] * 8]  # `list` makes each letter a word
BOOK = ["owls"] * 99 + ["owl " * 10_000]
SINGLE, TWO = ["owls", "", " "], ["owls", "owls", "", " "]


@pytest.mark.parametrize(
  ("lines", "options", "doubt"),
  [
    ([*SINGLE, *TWO] * 5, (), "5 of the first 10 documents have one sen"),
    (SINGLE * 4 + TWO * 5, (), None),  # less than half
    (SINGLE, (), "1 of the first 1 documents have one sen"),
    ([], (), None),
    (LONG, (), "1 of the first 9 lines have more words than max_seq_length=16"),
    ([*LONG, "o"], (), None),  # one line in ten
    (LONG, (False, 17), None),
    (LONG, (True,), None),  # prose is split into sentences
    (BOOK, (True, 99), "1 of the first 100 sentences have more than 2,000"),
    (['\ufeff{"a": "b"}', "owls"], (), "the text looks like JSON: build_vocab"),
    (['[{"a": 1}]', "owls"], (), "the text looks like JSON: "),
    (['<doc id="1">', "owls"], (), "the text looks like Wikipedia: split_sen"),
    (["{a} [1]", '{"a": "b"}'], (), None),
    (SINGLE, (True,), "1 of the first 1 documents have one sentence"),
  ],
)
def test_a_text_that_would_make_poor_records_is_reported(lines, options, doubt):
  texts = _doubts(lines, *options)
  assert len(texts) == bool(doubt)
  assert not doubt or texts[0].startswith(doubt)


# --- passages ---------------------------------------------------------------


@pytest.mark.parametrize(
  ("text", "is_passage"),
  [
    ("w " * 7 + "end.", True),
    ("w " * 6 + "end.", False),
    ("w " * 20, True),  # no end mark
    ("w " * 19, False),
    ("\u0e02" * 60, True),
    ("\u77ff" * 23 + "\u3002", True),  # three characters count as a word
    ("\u77ff" * 22 + "\u3002", False),
    ("\u77ff \u77ff " * 12 + "\u3002", True),  # blanks change nothing
    ("\u300c" + "\u77ff" * 23 + "\u3002\u300d", True),  # in quotes
  ],
)
def test_only_the_running_text_of_an_article_is_read(
  tmp_path, text, is_passage
):
  path = tmp_path / "wiki"
  for article in (json.dumps({"text": text}), f"<doc>\n{text}\n</doc>\n"):
    path.write_text(f"\ufeff{article}", encoding="utf-8")
    [result] = passages.read_wikipedia(str(path), SILENT())
    assert result == [text.strip()] * is_passage


START = "*** Start of this Project Gutenberg EBook"
BOOKS = f"a.\n\n{START}\n\nb.\n\n{START.replace('Start', 'End')}\n\nc.\n\n" * 2


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("He went\nto sea.", ["He went to sea."]),
    ("w " * 19, []),  # a heading
    ("w " * 20, [("w " * 20).strip()]),
    ("THE END.\n\n* * *\n\n1.", []),
    (BOOKS, ["b.", "b."]),
    (f"a.\n\n{START}\n\nb.\n\nc.\n\n{START}\n\nd.", ["b.", "c.", "d."]),
    ("\u0e02" * 60, ["\u0e02" * 60]),  # Thai has no marks
  ],
)
def test_only_the_running_text_of_a_book_is_read(tmp_path, text, expected):
  (tmp_path / "book").write_text(text)
  assert passages.read_book(str(tmp_path / "book"), SILENT()) == expected


# --- text formats -----------------------------------------------------------


def _lines(path, *args, **options):
  return list(documents.TextFormat(**options).lines(str(path), *args))


@pytest.mark.parametrize(
  ("layout", "blank"), [("documents", []), ("paragraphs", [""])]
)
def test_prose_is_split_into_sentences(tmp_path, layout, blank):
  path, rows = tmp_path / "text", tmp_path / "rows"
  path.write_bytes(PROSE.encode())
  rows.write_text(json.dumps({"n": 1, "body": PROSE}) + "\n")
  expected = ["Owls hunt.", "They hunt at night.", *blank]
  expected += ["Foxes do, too.", *blank, ""]
  assert _lines(path, layout=layout) == expected
  assert _lines(rows, layout=layout, field="body") == expected


def test_each_json_line_is_a_document(tmp_path):
  path = tmp_path / "rows.jsonl"
  path.write_text('\ufeff{"text": "one\\ntwo"}\r\n\r\n{"text": "three\\r\\n"}')
  assert _lines(path, field="text") == ["one", "two", "", "three", "", ""]


@pytest.mark.parametrize("row", ["{", "[1]", "{}", '{"text": 3}'])
@pytest.mark.parametrize("skipped", [0, 1])
def test_an_error_names_the_line_of_a_row_that_is_no_json_object_with_a_text(
  row, skipped, tmp_path
):
  good = '{"text": "a"}\n'
  (tmp_path / "rows.jsonl").write_text(good * 3 + row + "\n")
  message = r"rows\.jsonl, line 4 (is not a JSON object|has no text as 'text';)"
  with pytest.raises(UserError, match=message):
    _lines(tmp_path / "rows.jsonl", skipped * len(good), field="text")
