"""Tag files of several layouts: columns, comments, JSON lines and CoNLL-U."""

import gzip
import json
import os

import pytest

from tasks.ner import examples
from tasks.ner.examples import Sentence

TEXT = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

Peter NNP I-NP I-PER

-DOCSTART- -X- O O

Blackburn NNP I-NP I-LOC"""


def _write(tmp_path, text, name="x.txt"):
  path = tmp_path / name
  path.write_bytes(text.encode())
  return str(path)


@pytest.mark.parametrize("tag", [-1, 3])
def test_word_and_tag_columns_and_documents_are_read(tmp_path, tag):
  path = _write(tmp_path, TEXT)
  assert examples.read_sentences(path, tag_column=tag) == [
    Sentence(["EU", "rejects"], ["I-ORG", "O"], 0, [3, 4]),
    Sentence(["Peter"], ["I-PER"], 0, [6]),
    Sentence(["Blackburn"], ["I-LOC"], 1, [10]),
  ]
  others = examples.read_sentences(path, word_column=1, tag_column=-2)
  assert others[0] == Sentence(["NNP", "VBZ"], ["I-NP", "I-VP"], 0, [3, 4])


def test_extra_blanks_and_line_ends_do_not_change_the_words(tmp_path):
  text = "\ufeffAnn B-PER \r\nran O\t\r\n \t\r\nto\t O \r\nRiga \t B-LOC\t\r\n"
  text += "\r\n\t\n-DOCSTART-\r\nOK\tO"
  assert examples.read_sentences(_write(tmp_path, text)) == [
    Sentence(["Ann", "ran"], ["B-PER", "O"], 0, [1, 2]),
    Sentence(["to", "Riga"], ["O", "B-LOC"], 0, [4, 5]),
    Sentence(["OK"], ["O"], 1, [9]),
  ]
  path = _write(tmp_path, "\ufeffa\r\nb\r\n\t\r\n\n\u3000\n")
  assert examples.read_sentences(path, tag_column=None) == [
    Sentence(["a", "b"], None, 0, [1, 2]),
    Sentence(["\u3000"], None, 0, [5]),
  ]


# Columns to read from files with tags, and from files of words alone.
BOTH = ({"tag_column": -1}, {"tag_column": None})


@pytest.mark.parametrize(
  ("content", "columns", "message"),
  [
    ("a\nb\n", [{}], "1: 1 column, but expected a word .* columns 0 and -1"),
    ("a b O\n", [{"word_column": 1, "tag_column": 3}], "1: 3 col.* 1 and 3: "),
    ("a O\n\n\tO\n", [{}], "3: the word or the tag is empty"),
    # Rows of another width, and running text.
    ("a N O\n\nb O\nc N O\n", BOTH, "4: 3 columns, but line 3 has 2: write"),
    # Words and tags in one cell.
    ("The/DT ./.\nIt/PRP ran/VB far/RB ./.\n", BOTH, "1: '[/]' is in "),
    ("Ann_B-PER ran_O\n", BOTH, "1: '[_]' is in .*: write each word on"),
    ("Ann|B-PER\nran|O\n", BOTH, "1: '[|]' is in .*: write each word on"),
    ("Sentence,Word,Tag\n1,Ann,B-PER\n,ran,O\n", BOTH, "1: '[,]' is in .*: w"),
    ("Sentence: 1,Ann,NN,B-PER\n,ran,VB,O\n", BOTH, "1: '[,]' is in "),
    ("Sentence: 1,A,B-X\nSentence: 1,is,O\n", BOTH, "1: '[,]' is in "),
    # JSON lines.
    ('{"tokens": ["a"], "tags": [3]}', [{}], r'ner_tags.*\{"tags": \[3'),
    ('{"tokens": ["a", "b"], "tags": ["O"]}', [{}], "2 words, but 1 tags"),
    ('{"text": "a", "spans": []}', [{}], r'tokens or words.*\["text", "sp'),
    ('{"tokens": ["a"]}', [{}], "expected ner_tags or .*there is .*tokens"),
    ('{"tokens": ["a", ""], "tags": ["O", "O"]}', [{}], "1.*tokens.*none empt"),
  ],
)
def test_errors_name_the_unreadable_line(tmp_path, content, columns, message):
  for more in columns:
    with pytest.raises(ValueError, match=f"x.txt, line .*{message}"):
      examples.read_sentences(_write(tmp_path, content), **more)


def test_a_file_may_be_a_pipe():
  words = [f"w{n}" for n in range(5000)]
  end, start = os.pipe()
  os.write(start, "".join(f"{word} O\n" for word in words).encode())
  os.close(start)
  [sentence] = examples.read_sentences(f"/dev/fd/{end}")
  os.close(end)
  assert sentence.words == words


def test_a_file_without_words_is_refused(tmp_path):
  with pytest.raises(ValueError, match=r"x\.txt has no words"):
    examples.read_sentences(_write(tmp_path, "\n-DOCSTART- O\n\n"))


def _read(tmp_path, text, *columns):
  sentences = examples.read_sentences(_write(tmp_path, text), *columns)
  return " / ".join(" ".join(s.words) for s in sentences), sentences


ROWS = [
  {"id": "0", "tokens": ["Ann", "New York"], "ner_tags": ["B-PER", "B-LOC"]},
  {"id": "1", "tokens": [], "ner_tags": []},
  {"id": "2", "tokens": ["ran"], "ner_tags": ["O"], "tags": [3]},
]
SENTENCES = [
  Sentence(["Ann", "New York"], ["B-PER", "B-LOC"], 0, [1, 1]),
  Sentence(["ran"], ["O"], 0, [3]),
]
LINES = "".join(f"{json.dumps(row)}\n" for row in ROWS)


@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.txt"])
def test_json_lines_are_read(tmp_path, name):
  start = "\ufeff" if name == "x.txt" else " "
  path = _write(tmp_path, start + LINES.replace("\n", "\r\n"), name)
  assert examples.read_sentences(path) == SENTENCES
  alone = examples.read_sentences(path, 0, None)
  assert alone == [s._replace(tags=None) for s in SENTENCES]


def test_keys_of_json_lines_may_vary_and_the_file_may_be_compressed(tmp_path):
  for words, tags in (("words", "labels"), ("tokens", "tags")):
    row = {words: ["Ann"], tags: ["B-PER"]}
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(f" {json.dumps(row)}".encode()))
    [sentence] = examples.read_sentences(str(path))
    assert sentence[:2] == (["Ann"], ["B-PER"])


TAGGED, BARE = (0, -1), (0, None)


# Columns: text of a file, columns to read, words of sentences.
@pytest.mark.parametrize(
  ("text", "columns", "expected"),
  [
    # Comments are not words.
    (
      "# newdoc id = a\n# sent_id = a-1\n# text = Ann ran\n1\tAnn\t_\tNN\n"
      "2\tran\t_\tVB\n\n# sent_id = a-2\n1\tto\t_\tIN\n",
      (1, 3),
      "Ann ran / to",
    ),
    (
      "#begin document (a/b)\nAnn B-PER\n\n#end document\n"
      "#begin document (c)\nran O\n\n#end document\n",
      TAGGED,
      "Ann / ran",
    ),
    ("# a-1\nAnn B-PER\n\n#sent_id=2\nran O\n", TAGGED, "Ann / ran"),
    ("## a\t<Ann:PS> ran\nA\tB-PS\n \tO\nr\tO\n", TAGGED, "A ▁ r"),
    ("# a\n1\tAnn\tB-PER\n2\tran\tO\n", (1, 2), "Ann ran"),
    # A number sign may be a word.
    ("#\tO\n#yolo\tB-X\nAnn\tO\n", TAGGED, "# #yolo Ann"),
    ("#\n#yolo\nAnn\n", BARE, "# #yolo Ann"),
    ("a b\tB-X\nc\u00a0d  O\n", TAGGED, "a b c\u00a0d"),
    ("[\n{\n", BARE, "[ {"),  # no JSON
    # The number of columns may depend on the number of predicates.
    ("a X * O\nb X * O\n\nc X O\n\nd X * * O\n", TAGGED, "a b / c / d"),
  ],
)
def test_words_are_separated_from_comments(tmp_path, text, columns, expected):
  words, sentences = _read(tmp_path, text, *columns)
  assert words == expected
  if "document" in text:
    assert [s.document for s in sentences] == [0, 1]


def test_ner_values_in_the_last_column_of_conllu_are_read_as_tags(tmp_path):
  path = tmp_path / "x.txt"
  path.write_text("1\tAnn\tx=1|ner=B-PER\n2\tran\t_\n3\tso\tner=O|x=1\n\n")
  [sentence] = examples.read_sentences(str(path), 1)
  assert sentence.tags == ["B-PER", "O", "O"]


@pytest.mark.parametrize(
  ("tags", "expected"),
  [
    ("(PER) (PER* * *) * (LOC*)", "B-PER B-PER I-PER I-PER O B-LOC"),
    ("(S* (NP(DT*) *) *", "(S* (NP(DT*) *) *"),  # a parse
    ("( ) *", "( ) *"),  # parts of speech
    ("N;PL V;PST", "N;PL V;PST"),  # morphology
  ],
)
def test_tags_in_brackets_are_read_as_bio(tmp_path, tags, expected):
  text = "".join(f"w {tag}\n" for tag in tags.split())
  [sentence] = examples.read_sentences(_write(tmp_path, text))
  assert sentence.tags == expected.split()


def test_ranges_and_empty_nodes_of_conllu_are_not_words(tmp_path):
  text = "1-2\tzum\t_\n1\tzu\tP\n2\tdem\tD\n2.1\tist\tV\n3\tOrt\tN\n\n"
  words, [sentence] = _read(tmp_path, text, 1, 2)
  assert words == "zu dem Ort"
  assert sentence.tags == ["P", "D", "N"]
  assert sentence.lines == [2, 3, 5]
  assert _read(tmp_path, "2-1\tO\n", *TAGGED)[0] == "2-1"  # a score


def test_words_and_entities_of_conll_2012_are_read(tmp_path):
  tags = "(PER*", "*)", "*", "(LOC)"
  text = "".join(
    f"bc/x 0 {number} {word} NN (S* - - - x {tag} * -\n"
    for number, (word, tag) in enumerate(zip("abcd", tags, strict=True))
  )
  [sentence] = examples.read_sentences(_write(tmp_path, text), 3, 10)
  assert sentence.words == [*"abcd"]
  assert sentence.tags == ["B-PER", "I-PER", "O", "B-LOC"]


@pytest.mark.parametrize(
  ("text", "first"),
  [("1 Ann O\n2. ran O\n\n", "1"), ("0-3 Ann O\n4:7 ran O\n", "0-3")],
)
def test_a_column_of_numbers_has_no_words(tmp_path, text, first):
  path = _write(tmp_path, text)
  for column in (-1, None):
    with pytest.raises(ValueError, match=f"{first}' .*--word_column and --tag"):
      examples.read_sentences(path, 0, column)
