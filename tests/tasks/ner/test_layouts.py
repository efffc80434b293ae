"""Layouts of files: JSON lines, comments, and refused files."""

import gzip
import json

import pytest

from tasks.ner import examples, tagging
from tasks.ner.examples import Sentence


def _write(tmp_path, text, name="x.txt"):
  path = tmp_path / name
  path.write_bytes(text.encode())
  return str(path)


def _read(tmp_path, text, *columns, name="x.txt"):
  sentences = examples.read_sentences(_write(tmp_path, text, name), *columns)
  return [" ".join(s.words) for s in sentences], sentences


ROWS = [
  {"id": "0", "tokens": ["Ann", "New York"], "ner_tags": ["B-PER", "B-LOC"]},
  {"id": "1", "tokens": [], "ner_tags": []},
  {"id": "2", "tokens": ["ran"], "ner_tags": ["O"], "tags": [3]},
]
SENTENCES = [
  Sentence(["Ann", "New York"], ["B-PER", "B-LOC"], 0, 1, True),
  Sentence(["ran"], ["O"], 0, 3, True),
]
LINES = "".join(f"{json.dumps(row)}\n" for row in ROWS)


@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.txt"])
def test_json_lines_are_read(tmp_path, name):
  path = _write(tmp_path, "\ufeff" + LINES.replace("\n", "\r\n"), name)
  assert examples.read_sentences(path) == SENTENCES
  alone = examples.read_sentences(path, 0, None)
  assert alone == [s._replace(tags=None) for s in SENTENCES]
  assert SENTENCES[0].lines == [1, 1]


def test_json_lines_have_several_keys_and_are_compressed(tmp_path):
  for words, tags in (("words", "labels"), ("tokens", "tags")):
    row = {words: ["Ann"], tags: ["B-PER"]}
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(row).encode()))
    [sentence] = examples.read_sentences(str(path))
    assert sentence[:2] == (["Ann"], ["B-PER"])


@pytest.mark.parametrize(
  ("row", "message"),
  [
    ('{"tokens": ["a"], "ner_tags": [3]}', r'ner_tags.*\{"ner_tags": \[3\]\}'),
    ('{"tokens": ["a", "b"], "ner_tags": ["O"]}', "2 words, but 1 tags"),
    ('{"text": "a", "entities": []}', r'tokens or words.*\["text", "enti'),
    ('{"tokens": ["a"]}', r"expected ner_tags or .*there is \[.tokens.\]"),
    ('{"tokens": ["a", ""], "tags": ["O", "O"]}', "expected tokens"),
    ('{"tokens": ["a"], "tags": ["O"', "no JSON.*cut short, or an array"),
    ('[{"tokens": ["a"], "tags": ["O"]}]', " is no JSON object"),
  ],
)
def test_mistakes_of_json_lines_are_named(tmp_path, row, message):
  with pytest.raises(ValueError, match=f"x.txt, line 1.*{message}"):
    _read(tmp_path, row)


def test_a_word_may_look_like_json(tmp_path):
  words, _ = _read(tmp_path, '{" O\n: O\n} B-X\n')
  assert words == ['{" : }']
  words, _ = _read(tmp_path, "[\n{\n", 0, None)
  assert words == ["[ {"]


def test_a_json_tag_of_no_model_is_named_by_its_line(tmp_path):
  path = _write(tmp_path, LINES, "x.jsonl")
  with pytest.raises(ValueError, match=r"x\.jsonl, line 1: 'B-LOC' is n"):
    tagging.read_tagged(path, (0, -1), ["O", "B-PER"], needs_tags=True)


# A file with comments, columns to read, and sentences.
COMMENTS = [
  (
    "# id 1\tdomain=en\nAnn _ _ B-PER\nran _ _ O\n\n"
    "# id 2\tdomain=en\nto _ _ O",
    (0, -1),
    ["Ann ran", "to"],
  ),
  (
    "# newdoc id = a\n# sent_id = a-1\n# text = Ann ran\n1\tAnn\t_\tNN\n"
    "2\tran\t_\tVB\n\n# sent_id = a-2\n1\tto\t_\tIN\n",
    (1, 3),
    ["Ann ran", "to"],
  ),
  (
    "#begin document (a/b); part 000\nAnn B-PER\n\n#end document\n"
    "#begin document (c); part 000\nran O\n\n#end document\n",
    (0, -1),
    ["Ann", "ran"],
  ),
  ("# a-1\nAnn B-PER\n\n#sent_id=2\nran O\n", (0, -1), ["Ann", "ran"]),
  ("## a\t<Ann:PS> ran\nA\tB-PS\n \tO\nr\tO\n", (0, -1), ["A ▁ r"]),
  ("# a b\nAnn\nran\n", (0, None), ["Ann ran"]),
]


@pytest.mark.parametrize(("text", "columns", "expected"), COMMENTS)
def test_comments_are_no_words(tmp_path, text, columns, expected):
  words, sentences = _read(tmp_path, text, *columns)
  assert words == expected
  if "document" in text:
    assert [s.document for s in sentences] == [0, 1]


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("#\tO\n#yolo\tB-X\nAnn\tO\n", "# #yolo Ann"),
    ("# O\n#yolo B-X\n# B-Y\nAnn O\n", "# #yolo # Ann"),
    ("#yolo HT\n@ann USR\nran VB\n", "#yolo @ann ran"),  # a hashtag with a tag
    ("# #\nran VB\n", "# ran"),
    ("# O\n", "#"),
  ],
)
def test_a_number_sign_may_be_a_word(tmp_path, text, expected):
  assert _read(tmp_path, text)[0] == [expected]


def test_a_number_sign_alone_is_a_word_where_words_are_alone(tmp_path):
  assert _read(tmp_path, "#\n#yolo\nAnn\n", 0, None)[0] == ["# #yolo Ann"]


@pytest.mark.parametrize("columns", [(0, -1), (0, None)])
@pytest.mark.parametrize(
  ("text", "line", "separator"),
  [
    ("Ann/B-PER ran/O\nto/O Riga/B-LOC\n", 1, "/"),
    ("Ann/B-PER\nran/O\n\nto/O\n", 1, "/"),
    ("The/DT dog/NN ./.\nIt/PRP ran/VB far/RB ./.\n", 1, "/"),
    ("Ann_B-PER ran_O\n", 1, "_"),
    ("Ann|B-PER ran|O\n", 1, "|"),
    ("word,tag\nAnn,B-PER\n", 1, ","),
    ("Ann, B-PER\nran, O\n", 1, ","),
    (
      "Sentence #,Word,Tag\nSentence: 1,Ann,B-PER\n,ran,O\n,far,O\n,.,O\n",
      3,
      ",",
    ),
    ('"Ann";"B-PER"\n"ran";"O"\n', 1, ";"),
  ],
)
def test_other_separators_are_refused(tmp_path, text, line, separator, columns):
  message = f"x.txt, line {line}: '[{separator}]' is in .*: write each word on"
  with pytest.raises(ValueError, match=message):
    _read(tmp_path, text, *columns)


@pytest.mark.parametrize("columns", [(0, -1), (0, None)])
@pytest.mark.parametrize(
  "text",
  [
    "Ann ran to Riga .\nShe saw it .\nHe left early on that day .\nOK .\n",
    "<PER>Ann</PER> ran .\nHe saw <LOC>Riga</LOC> then .\nOK\n",
  ],
)
def test_running_text_is_refused(tmp_path, text, columns):
  with pytest.raises(ValueError, match="line 2: another number of columns"):
    _read(tmp_path, text, *columns)


def test_blanks_and_line_ends_do_not_matter(tmp_path):
  text = (
    "\ufeffAnn B-PER \r\nran O\t\r\n \t\r\nto\t O \r\n"
    "Riga \t B-LOC\t\r\n\r\n\t\n-DOCSTART-\r\nOK\tO"
  )
  words, sentences = _read(tmp_path, text)
  assert words == ["Ann ran", "to Riga", "OK"]
  assert [s.tags for s in sentences] == [["B-PER", "O"], ["O", "B-LOC"], ["O"]]
  assert [s.document for s in sentences] == [0, 0, 1]


def test_columns_of_a_sentence_may_be_as_many_as_its_predicates(tmp_path):
  text = "a X * O\nb X * O\nc X * O\n\nd X O\ne X O\n\nf X * * O\ng X * * O\n"
  assert _read(tmp_path, text)[0] == ["a b c", "d e", "f g"]
