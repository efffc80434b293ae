"""Tag files of many layouts: columns, comments, JSON lines and CoNLL-U."""

import gzip
import json
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from storage import UserError
from tasks.ner import examples, tagging
from tasks.ner.examples import Sentence
from tests import shared

TEXT = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

Peter NNP I-NP I-PER

-DOCSTART- -X- O O

Blackburn NNP I-NP I-LOC"""


# Columns to read from files with tags, and from files of words alone.
BOTH = ({"tag_column": -1}, {"tag_column": None})
SHEET = "Sentence #,Word,Tag\nSentence: 1,Ann,B-PER\n,ran,O\n,far,O\n,.,O\n"


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


@pytest.mark.parametrize(
  ("content", "columns", "message"),
  [
    ("a O\nb\n", {}, "2: 1 column, so that columns 0 and -1 are the same"),
    ("a O\n", {"tag_column": 3}, "1: 2 columns, so that there is no.* 3"),
    ("a O\n", {"tag_column": -3}, "1: 2 columns, so that there is no.* -3"),
    ("a N X O\nb N X\nc N X O\n", {}, "2: 3 columns.* 4: add the word or tag"),
    ("a x y NER=B-X\nb\n", {"tag_column": 3}, "2: 1 column, so that there"),
    ("a/x 0 1 b O\n" * 25, {"tag_column": 9}, "1: 5 columns, so that there"),
    ("a O\n\n\tO\n", {}, "3: the word or the tag is empty"),
    # Tables and running text are no tag files.
    ("Ann/B-PER ran/O\nto/O Riga/B-LOC\n", BOTH, "1: '[/]' is in .*: write"),
    ("Ann/B-PER\nran/O\n\nto/O\n", BOTH, "1: '[/]' is in .*: write each word"),
    ("The/DT ./.\nIt/PRP ran/VB far/RB ./.\n", BOTH, "1: '[/]' is in "),
    ("Ann_B-PER ran_O\n", BOTH, "1: '[_]' is in .*: write each word on"),
    ("Ann|B-PER ran|O\n", BOTH, "1: '[|]' is in .*: write each word on"),
    ("word,tag\nAnn,B-PER\n", BOTH, "1: '[,]' is in .*: write each word on"),
    ("Ann, B-PER\nran, O\n", BOTH, "1: '[,]' is in .*: write each word on"),
    (SHEET, BOTH, "3: '[,]' is in .*: write each word on"),
    ('"Ann";"B-PER"\n"ran";"O"\n', BOTH, "1: '[;]' is in .*: write each word"),
    ("text\tlabel\nA good film.\t1\nSo so.\t0\n", BOTH, "2: '[ ]' is in "),
    ("Ann ran to Riga .\nShe saw it .\nHe left .\nOK .\n", BOTH, "2: another"),
    ("Ann met Bob in Riga.\nThe UN closed.\n", BOTH, "2: another number of"),
    ("Ann ran .\nBo saw it .\nIt fell .\n", BOTH, "2: another number of"),
    ("<PER>Ann</PER> ran .\nHe saw it then .\nOK\n", BOTH, "2: another number"),
    # JSON lines.
    ('{"tokens": ["a"], "ner_tags": [3]}', {}, r'ner_tags.*\{"ner_tags": \[3'),
    ('{"tokens": ["a", "b"], "ner_tags": ["O"]}', {}, "2 words, but 1 tags"),
    ('{"text": "a", "entities": []}', {}, r'tokens or words.*\["text", "enti'),
    ('{"tokens": ["a"]}', {}, r"expected ner_tags or .*there is \[.tokens.\]"),
    ('{"tokens": ["a", ""], "tags": ["O", "O"]}', {}, "1.*tokens.*none empty"),
    ('{"tokens": ["a"], "tags": ["O"', {}, "1 is not a JSON object"),
    ('[{"tokens": ["a"], "tags": ["O"]}]', {}, "1 is not a JSON object"),
  ],
)
def test_errors_name_the_line_that_cannot_be_read(
  tmp_path, content, columns, message
):
  for more in columns if columns is BOTH else [columns]:
    with pytest.raises(ValueError, match=f"x.txt, line .*{message}"):
      examples.read_sentences(_write(tmp_path, content), **more)


@pytest.mark.parametrize("content", ["Ann ran home\n", "Ann ran .\n\n"])
def test_a_line_of_running_text_is_refused(tmp_path, content):
  for columns in BOTH:
    with pytest.raises(UserError, match=r"x\.txt is a line of running text"):
      examples.read_sentences(_write(tmp_path, content), **columns)
  for row in ("Ann NNP B-PER", "ran VBD O", "ran -"):
    assert examples.read_sentences(_write(tmp_path, row))


@pytest.mark.parametrize(
  "content",
  [
    "王小明在北京工作。\n他去上海。\n",
    "這部電影很好看！\n\n好\n\n他走了。\n",
    f"{'ก' * 21}\n" * 20,
    "大学发布重要新闻\n今日天气预报非常好。”\n" * 10,
  ],
)
def test_running_text_without_blanks_is_refused(tmp_path, content):
  with pytest.raises(UserError, match="is running text: write"):
    examples.read_sentences(_write(tmp_path, content), tag_column=None)
  for words in (
    "นายกรัฐมนตรี\n",
    "王小明\n。\n他\n。\n",
    "https://a.org/b/c/d\nAnn\n.\n",
  ):
    path = _write(tmp_path, words)
    assert examples.read_sentences(path, tag_column=None)


def test_a_language_before_each_word_is_left_out(tmp_path):
  content = "en:Ann B-PER\nen:: O\n" * 2
  [sentence] = examples.read_sentences(_write(tmp_path, content))
  assert sentence.words == ["Ann", ":"] * 2
  for more in ("Ann", "en://a.b"):
    text = f"{content}{more} O\n"
    [sentence] = examples.read_sentences(_write(tmp_path, text))
    assert sentence.words == ["en:Ann", "en::"] * 2 + [more]


def test_a_tag_column_with_almost_as_many_tags_as_words_is_reported(
  tmp_path, caplog
):
  rows = [f"w{i}\tNN\t{i}th\n" for i in range(20)]
  rows[9] = "w9\tNN\t3th\n"
  path = _write(tmp_path, "".join(rows))
  message = "x.txt: 19 different tags, such as '0th', of 20 words"
  assert examples.read_sentences(path)
  assert message in caplog.text and "lemmas, ids or texts" in caplog.text
  caplog.clear()
  assert examples.read_sentences(path, tag_column=None)
  # 19 words are too few for a warning, and 10 tags of 22 words not too many.
  for text in ("".join(rows[1:]), "".join(rows[:11]) * 2):
    assert examples.read_sentences(_write(tmp_path, text))
  assert not caplog.text


@pytest.mark.parametrize("content", ["", "\n-DOCSTART- O\n\n"])
def test_a_file_without_words_is_refused(tmp_path, content):
  with pytest.raises(ValueError, match=r"x\.txt has no words"):
    examples.read_sentences(_write(tmp_path, content))


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
def test_published_files_have_known_numbers_of_sentences_and_words(
  file, tag, sentences, words
):
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
def test_words_and_tags_of_a_written_file_are_read_unchanged(
  tmp_path_factory, sentences, blank, end
):
  words = [word for sentence in sentences for word, _ in sentence]
  are_numbers = re.fullmatch(r"[\d.:-]+", "".join(words))
  assume(len(words) == 1 or not are_numbers)
  folder = tmp_path_factory.mktemp("conll")
  text = (end * 2).join(
    end.join(f"{word}{blank}{tag}" for word, tag in sentence)
    for sentence in sentences
  )
  result = examples.read_sentences(_write(folder, text))
  pairs = [list(zip(one.words, one.tags, strict=True)) for one in result]
  assert pairs == sentences


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
  path = _write(tmp_path, "\ufeff" + LINES.replace("\n", "\r\n"), name)
  assert examples.read_sentences(path) == SENTENCES
  alone = examples.read_sentences(path, 0, None)
  assert alone == [s._replace(tags=None) for s in SENTENCES]


def test_keys_of_json_lines_may_vary_and_the_file_may_be_compressed(tmp_path):
  for words, tags in (("words", "labels"), ("tokens", "tags")):
    row = {words: ["Ann"], tags: ["B-PER"]}
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(row).encode()))
    [sentence] = examples.read_sentences(str(path))
    assert sentence[:2] == (["Ann"], ["B-PER"])


def test_an_unknown_tag_in_json_is_reported_with_its_line(tmp_path):
  path = _write(tmp_path, LINES, "x.jsonl")
  with pytest.raises(ValueError, match=r"x\.jsonl, line 1: 'B-LOC' is n"):
    tagging.read_tagged(path, (0, -1), {}, ["O", "B-PER"], needs_tags=True)


TAGGED, BARE = (0, -1), (0, None)


# Columns: text of a file, columns to read, words of sentences.
@pytest.mark.parametrize(
  ("text", "columns", "expected"),
  [
    # Comments are not words.
    ("# 1\tx=en\nAnn B-X\nran O\n\n# 2\tx=en\nto O", TAGGED, "Ann ran / to"),
    (
      "# newdoc id = a\n# sent_id = a-1\n# text = Ann ran\n1\tAnn\t_\tNN\n"
      "2\tran\t_\tVB\n\n# sent_id = a-2\n1\tto\t_\tIN\n",
      (1, 3),
      "Ann ran / to",
    ),
    (
      "#begin document (a/b); part 000\nAnn B-PER\n\n#end document\n"
      "#begin document (c); part 000\nran O\n\n#end document\n",
      TAGGED,
      "Ann / ran",
    ),
    ("# a-1\nAnn B-PER\n\n#sent_id=2\nran O\n", TAGGED, "Ann / ran"),
    ("## a\t<Ann:PS> ran\nA\tB-PS\n \tO\nr\tO\n", TAGGED, "A ▁ r"),
    ("# a b\nAnn\nran\n", BARE, "Ann ran"),
    ("# a\n1\tAnn\tB-PER\n2\tran\tO\n", (1, 2), "Ann ran"),
    # A number sign may be a word.
    ("#\tO\n#yolo\tB-X\nAnn\tO\n", TAGGED, "# #yolo Ann"),
    ("# O\n#yolo B-X\n# B-Y\nAnn O\n", TAGGED, "# #yolo # Ann"),
    ("#yolo HT\n@ann USR\nran VB\n", TAGGED, "#yolo @ann ran"),
    ("# #\nran VB\n", TAGGED, "# ran"),
    ("# O\n", TAGGED, "#"),
    ("#\n#yolo\nAnn\n", BARE, "# #yolo Ann"),
    (
      "## i\ta\n## O\n# O\n\na b\tB-X\nc\u00a0d  O\n",
      TAGGED,
      "## # / a b c\u00a0d",
    ),
    # A word may look like JSON.
    ('{" O\n: O\n} B-X\n', TAGGED, '{" : }'),
    ("[\n{\n", BARE, "[ {"),
    # The number of columns may depend on the number of predicates.
    ("a X * O\nb X * O\n\nc X O\n\nd X * * O\n", TAGGED, "a b / c / d"),
  ],
)
def test_words_are_distinguished_from_comments(
  tmp_path, text, columns, expected
):
  words, sentences = _read(tmp_path, text, *columns)
  assert words == expected
  if "document" in text:
    assert [s.document for s in sentences] == [0, 1]


def test_ner_values_in_the_last_column_of_conllu_are_read_as_tags(tmp_path):
  path = tmp_path / "x.txt"
  path.write_text("1\tAnn\tx=B-A|ner=B-PER\n2\tran\t_\n3\tso\tner=O|x=1\n\n")
  [sentence] = examples.read_sentences(str(path), 1)
  assert sentence.tags == ["B-PER", "O", "O"]


@pytest.mark.parametrize(
  ("header", "columns", "line"),
  [
    ("word\ttag", TAGGED, 1),
    ("# a\n\nTokens\tNER Tag\n", TAGGED, 3),
    ("Text\tPOS", TAGGED, 1),
    ("Sentence #\tWord\tPOS\tTag", (1, 3), 1),
    ("Sentence #\tWord\tPOS\tTag", (1, -1), 1),
  ],
)
def test_a_header_is_not_read_as_a_word(tmp_path, log, header, columns, line):
  cells = "Ann\tB-PER" if columns == TAGGED else "1\tAnn\tNNP\tB-PER"
  text = f"{header}\n{cells}\n\n{cells.replace('Ann', 'word')}\n"
  words, sentences = _read(tmp_path, text, *columns)
  assert words == "Ann / word"
  assert sentences[0].lines == [header.count("\n") + 2]
  message = f"x.txt, line {line}: left out, because it is a header"
  assert log.text.count(message) == 1
  # These first lines only look like headers.
  for word, tag in (("word", "O"), ("Ann", "tag"), ("Text", "entity")):
    words, _ = _read(tmp_path, f"{word}\t{tag}\nran\tO\nfar\tentity\n")
    assert words == f"{word} ran far"


@pytest.mark.parametrize(
  ("tags", "expected"),
  [
    ("(PER) (PER* * *) * (LOC*)", "B-PER B-PER I-PER I-PER O B-LOC"),
    ("(PER* *)\n\n* *", "B-PER I-PER O O"),
    ("(S* (NP(DT*) *) *", None),  # a parse
    ("( ) *", None),  # parts of speech
  ],
)
def test_tags_in_brackets_are_read_as_bio(tmp_path, tags, expected):
  text = "\n".join(f"w{' ' * bool(tag)}{tag}" for tag in tags.split(" "))
  text = text.replace("\n\n", "\n\nw ")
  sentences = examples.read_sentences(_write(tmp_path, f"{text}\n"))
  result = " ".join(tag for one in sentences for tag in one.tags)
  assert result == (expected or tags)


def test_ranges_and_empty_nodes_of_conllu_are_not_words(tmp_path, log):
  text = "1-2\tzum\t_\n1\tzu\tP\n2\tdem\tD\n2.1\tist\tV\n3\tOrt\tN\n\n"
  words, [sentence] = _read(tmp_path, text, 1, 2)
  assert words == "zu dem Ort"
  assert sentence.tags == ["P", "D", "N"]
  assert sentence.lines == [2, 3, 5]
  assert log.text.count("x.txt: left out 2 lines with ids such as 1-2 ") == 1
  words, _ = _read(tmp_path, text.replace("2\tdem", "B\tdem"), 1, 2)
  # With the id B, the table is not CoNLL-U.
  assert words == "zum zu dem ist Ort"
