"""Files of tags: columns, JSON lines, documents, comments, refused files."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.ner import examples, tagging
from tasks.ner.examples import Sentence
from tests import shared

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


def _tagged(*texts):
  return [Sentence([""] * len(tags), tags) for tags in map(str.split, texts)]


@pytest.mark.parametrize("tag", [-1, 3])
def test_columns_and_documents(tmp_path, tag):
  path = _write(tmp_path, TEXT)
  assert examples.read_sentences(path, tag_column=tag) == [
    Sentence(["EU", "rejects"], ["I-ORG", "O"], 0, 3),
    Sentence(["Peter"], ["I-PER"], 0, 6),
    Sentence(["Blackburn"], ["I-LOC"], 1, 10),
  ]
  others = examples.read_sentences(path, word_column=1, tag_column=-2)
  assert others[0] == Sentence(["NNP", "VBZ"], ["I-NP", "I-VP"], 0, 3)


def test_words_alone(tmp_path):
  path = _write(tmp_path, "\ufeffa\r\nb\r\n\t\r\n\n\u3000\n")
  assert examples.read_sentences(path, tag_column=None) == [
    Sentence(["a", "b"], None, 0, 1),
    Sentence(["\u3000"], None, 0, 5),
  ]


def test_comments_and_words_with_blanks_have_a_tab(tmp_path):
  text = "## id\ttext\n## O\n# O\n\nNew York\tB-LOC\na\u00a0b  O\n"
  assert examples.read_sentences(_write(tmp_path, text)) == [
    Sentence(["##", "#"], ["O", "O"], 0, 2),
    Sentence(["New York", "a\u00a0b"], ["B-LOC", "O"], 0, 5),
  ]


@pytest.mark.parametrize(
  ("content", "columns", "message"),
  [
    ("a O\nb\n", {}, "2: 1 column, so that columns 0 and -1 are the same"),
    ("a O\n", {"tag_column": 3}, "line 1: 2 columns, so that there is no.* 3"),
    ("a O\n", {"tag_column": -3}, "1: 2 columns, so that there is no.* -3"),
    (
      "a N X O\nb N X\nc N X O\n",
      {},
      "line 2: 3 columns.* 4: add the word or tag",
    ),
    ("a O\n\n\tO\n", {}, "line 3: the word or the tag is empty"),
    ("\n-DOCSTART- O\n\n", {}, "x.txt has no words"),
    ("", {}, "x.txt has no words"),
  ],
)
def test_errors_name_the_line(tmp_path, content, columns, message):
  with pytest.raises(ValueError, match=message):
    examples.read_sentences(_write(tmp_path, content), **columns)


def test_order_of_the_tags():
  sentences = _tagged("I-PER B-LOC O", "B-PER LOC")
  # Each type gets the prefixes of all types: another file may need them.
  expected = ("O", "B-LOC", "I-LOC", "LOC", "B-PER", "I-PER")
  assert tagging.tag_set(sentences) == expected
  assert tagging.tag_set(_tagged("PER O LOC")) == ("O", "LOC", "PER")
  # Tags without a type are one type, which gets no prefix of another type.
  assert tagging.tag_set(_tagged("B I O")) == ("O", "B", "I")
  assert tagging.tag_set(_tagged("B O I-X")) == ("O", "B", "I-X")


@pytest.mark.slow
@shared.on_datasets
@pytest.mark.parametrize(
  ("file", "tag", "sentences", "words"),
  [
    ("wnut17/wnut17train.conll", -1, 3394, 62730),
    ("wnut17/emerging.test", None, 1287, 23394),
    ("ncbi_disease/train.tsv", -1, 5424, 135701),
    ("bc5cdr/train.tsv", -1, 4560, 118170),
    ("wikiann_en/train", -1, 20000, 160394),
    ("wikigold/wikigold.conll.txt", -1, 1696, 39007),
  ],
)
def test_reads_the_real_files(file, tag, sentences, words):
  path = f"{shared.DATASETS}/{file}"
  result = examples.read_sentences(path, tag_column=tag)
  assert len(result) == sentences
  assert sum(len(sentence.words) for sentence in result) == words
  if "wikigold" in file:
    assert result[-1].document == 144


WORDS = st.text(
  st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" \ufeff"),
  min_size=1,
).filter(
  lambda word: (
    not word.startswith(examples.DOCUMENT_START)
    and not set(word) & set(",;")  # delimiters of tables
  )
)
SENTENCES = st.lists(
  st.lists(st.tuples(WORDS, st.sampled_from(["O", "B-a", "I-a"])), min_size=1),
  min_size=1,
)


@given(SENTENCES, st.sampled_from([" ", "\t"]), st.sampled_from(["\n", "\r\n"]))
def test_whatever_is_written_is_read(tmp_path_factory, sentences, blank, end):
  folder = tmp_path_factory.mktemp("conll")
  text = (end * 2).join(
    end.join(f"{word}{blank}{tag}" for word, tag in sentence)
    for sentence in sentences
  )
  result = examples.read_sentences(_write(folder, text))
  pairs = [list(zip(one.words, one.tags, strict=True)) for one in result]
  assert pairs == sentences


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
  ("# a\n1\tAnn\tB-PER\n2\tran\tO\n", (1, 2), ["Ann ran"]),
]


@pytest.mark.parametrize(("text", "columns", "expected"), COMMENTS)
def test_comments_are_no_words(tmp_path, text, columns, expected):
  words, sentences = _read(tmp_path, text, *columns)
  assert words == expected
  if "document" in text:
    assert [s.document for s in sentences] == [0, 1]


def test_tags_with_a_name_are_read_from_the_last_column_of_conllu(tmp_path):
  path = tmp_path / "x.txt"
  path.write_text("1\tAnn\tx=B-A|ner=B-PER\n2\tran\t_\n3\tso\tner=O|x=1\n\n")
  [sentence] = examples.read_sentences(str(path), 1)
  assert sentence.tags == ["B-PER", "O", "O"]


def test_ranges_and_empty_nodes_of_conllu_are_no_words(tmp_path, caplog):
  caplog.set_level("INFO", "absl")
  text = "1-2\tzum\t_\n1\tzu\tP\n2\tdem\tD\n2.1\tist\tV\n3\tOrt\tN\n\n"
  for _ in range(2):  # as a training file is
    words, [sentence] = _read(tmp_path, text, 1, 2)
  assert words == ["zu dem Ort"]
  assert sentence.tags == ["P", "D", "N"]
  assert sentence.lines == [2, 3, 5]
  assert caplog.text.count("x.txt: left out 2 lines with ids such as 1-2 ") == 1
  words, _ = _read(tmp_path, text.replace("2\tdem", "B\tdem"), 1, 2)
  assert words == ["zum zu dem ist Ort"]  # other tables have no ids


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("#\tO\n#yolo\tB-X\nAnn\tO\n", "# #yolo Ann"),
    ("# O\n#yolo B-X\n# B-Y\nAnn O\n", "# #yolo # Ann"),
    ("#yolo HT\n@ann USR\nran VB\n", "#yolo @ann ran"),  # a hashtag with a tag
    ("# #\nran VB\n", "# ran"),
    ("# O\n", "#"),
    ("#\n#yolo\nAnn\n", "# #yolo Ann"),
  ],
)
def test_a_number_sign_may_be_a_word(tmp_path, text, expected):
  columns = (0, -1) if " " in text or "\t" in text else (0, None)
  assert _read(tmp_path, text, *columns)[0] == [expected]


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
    ("text\tlabel\nA good film.\t1\nSo bad it is.\t0\n", 2, " "),
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
    "Ann met Bob in Riga.\nThe UN closed.\n",
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
