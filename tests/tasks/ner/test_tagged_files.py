"""The tags of a run's files: known, unknown, doubtful and missing tags."""

import re
from functools import partial

import pytest

from data import labels
from storage import UserError
from tasks.ner import examples, tagging
from tests import programs

TAGS = ("O", "B-PET", "I-PET")
COLUMNS = (0, -1)
TEXT = """Rex B-PET
barks O

we O
saw O
old B-PET
Tom I-PET
"""


@pytest.fixture(name="folder")
def _folder(tmp_path):
  return str(tmp_path / "model")


def _write(tmp_path, text):
  (tmp_path / "x.txt").write_text(text)
  return str(tmp_path / "x.txt")


def _tags(path, columns, folder):
  find = path and partial(tagging.find_tags, path, columns, {})
  return labels.choose(folder, None, find)


def test_the_tags_of_a_model_come_from_the_training_file(tmp_path, folder):
  path = _write(tmp_path, TEXT)
  assert _tags(path, COLUMNS, folder) == TAGS
  assert not labels.exist(folder)  # labels.txt is written later
  for needs_tags in (True, False):
    result = tagging.read_tagged(path, COLUMNS, {}, TAGS, needs_tags)
    assert [s.tags for s in result] == [["B-PET", "O"], ["O", "O", *TAGS[1:]]]
  labels.save_if_missing(TAGS, folder)
  # A prediction ignores a training file that has changed.
  assert _tags(_write(tmp_path, "Rex S-DOG\n"), COLUMNS, folder) == TAGS


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("a O\nb O\n" * 101, "x.txt: all 202 words are one sentence"),
    ("a O\n\nb O\n\n" * 10, "x.txt: each of the 20 words is a sentence"),
    (
      "Rex B_PET\nbarks O\nTom B-PET\n",
      "x.txt, line 1: 'B_PET', where BIO (prefix, separator '-') has 'B-P",
    ),
  ],
)
def test_a_warning_names_an_unusual_tag_file(tmp_path, caplog, text, message):
  tags = ["O", "B-PET", "B_PET"]
  tagging.read_tagged(_write(tmp_path, text), COLUMNS, {}, tags, True)
  assert message in caplog.text


def test_a_line_with_more_columns_than_most_lines_is_reported(tmp_path, caplog):
  path = _write(tmp_path, "Rex B-PET\nbarks O\n\n1 Tom O\n")
  # Column 0 does not depend on the number of columns.
  examples.read_sentences(path, 0, None)
  assert not caplog.messages
  examples.read_sentences(path)
  [text] = caplog.messages
  assert text.startswith(f"{path}, line 4: 3 columns, but most have 2;")


def test_tags_may_be_in_any_column(tmp_path, folder):
  path = _write(tmp_path, "B-PET x Rex 7\nO y barks 8\n")
  columns = (2, 0)
  assert _tags(path, columns, folder) == ("O", "B-PET")
  [sentence] = tagging.read_tagged(path, columns, {}, TAGS, needs_tags=True)
  assert sentence == examples.Sentence(
    ["Rex", "barks"], ["B-PET", "O"], 0, [1, 2]
  )
  [sentence] = tagging.read_tagged(path, columns, {}, ["O"], needs_tags=False)
  assert sentence == examples.Sentence(["Rex", "barks"], None, 0, [1, 2])


def test_a_training_needs_at_least_two_tags(tmp_path, folder):
  path = _write(tmp_path, "Rex NNP O B-PET\nbarks VBZ O O\n")
  with pytest.raises(ValueError, match=r"x\.txt: every tag is 'O'; .* column"):
    _tags(path, (0, 2), folder)
  assert not labels.exist(folder)
  message = r"no labels\.txt in \S*model .*train_file"
  with pytest.raises(FileNotFoundError, match=message):
    _tags(None, COLUMNS, folder)


def test_quotes_around_all_tags_are_refused(tmp_path, folder):
  path = _write(tmp_path, '"Rex" "B-PET"\n"barks" "O"\n')
  with pytest.raises(UserError, match="in quotes: write them without"):
    _tags(path, COLUMNS, folder)
  path = _write(tmp_path, 'Rex "X"\nbarks O\n')
  assert '"X"' in tagging.find_tags(path, COLUMNS, {})


@pytest.mark.parametrize(
  ("word", "is_reported"),
  [
    *((word, True) for word in ('""""', '","', '"1,000"', '"a ""b"", c"')),
    *((word, False) for word in ('"', '""', '"""', '"a"', ',"', '"Hi,', '"".')),
  ],
)
def test_quotes_around_words_as_in_csv_are_reported(
  tmp_path, caplog, word, is_reported
):
  path = _write(tmp_path, f"Rex\tB-PET\n{word}\tO\n")
  [sentence] = examples.read_sentences(path)
  assert sentence.words == ["Rex", word]
  text = f"{path}, line 2: quotes as in .csv are read as text: {word}; write "
  assert (text in caplog.text) == bool(caplog.text) == is_reported


def test_words_in_quotes_within_a_text_are_not_reported(tmp_path, caplog):
  path = _write(tmp_path, 'Rex\tB-PET\nsaid\tO\nso,\tO\n"Yes,"\tO\nhe\tO\n')
  assert len(examples.read_sentences(path)[0].words) == 5
  assert not caplog.text


# Columns: file, error if tags are needed, log level and message otherwise.
@pytest.mark.parametrize(
  ("text", "error", "level", "message"),
  [
    ("Rex O\nTom B-X", "2: 'B-X' .* O, B-PET, I-PET", "WARNING", "2: 'B-X'"),
    ("Rex O\nit O\nTom", "line 3: 1 column", "WARNING", "line 3: 1 column"),
    ("Rex\nbarks", "line 1: 1 column", "INFO", "has no tags: words are tagged"),
    ("Rex _\nbarks _", "line 1: '_', where BIO", "WARNING", "all tags are _"),
  ],
)
def test_words_with_unknown_or_missing_tags_are_not_scored(
  tmp_path, log, text, error, level, message
):
  path = _write(tmp_path, text)
  with pytest.raises(ValueError, match=error):
    tagging.read_tagged(path, COLUMNS, {}, TAGS, needs_tags=True)
  result = tagging.read_tagged(path, COLUMNS, {}, TAGS, needs_tags=False)
  words = [line.split()[0] for line in text.splitlines()]
  assert result == [examples.Sentence(words, None, 0, [1, 2, 3][: len(words)])]
  *_, record = log.records
  assert (record.levelname, message in record.message) == (level, True)
  assert "scored" in record.message


def test_json_lines_without_tags_are_no_reason_for_a_warning(tmp_path, log):
  path = _write(tmp_path, '{"tokens": ["Rex"]}\n')
  [sentence] = tagging.read_tagged(path, COLUMNS, {}, TAGS, needs_tags=False)
  assert sentence.words == ["Rex"]
  assert log.records[-1].levelname == "INFO"
  assert "has no tags: words are tagged" in log.text
  path = _write(tmp_path, '{"tokens": ["Rex"], "ner_tags": [3]}\n')
  tagging.read_tagged(path, COLUMNS, {}, TAGS, needs_tags=False)
  assert log.records[-1].levelname == "WARNING"


def test_a_tag_such_as_nil_is_reported_if_no_tag_is_outside(tmp_path, log):
  message = "nil is a tag like all others, so accuracy is computed, not F1"
  few = "Rex PET\nran nil"
  for text, is_reported in ((few, False), (f"{few}\nso nil", True)):
    path, tags = _write(tmp_path, text), ["PET", "nil"]
    tagging.read_tagged(path, COLUMNS, {}, tags, needs_tags=True)
    assert (message in log.text) == is_reported


BRAT = "T1\tORG 0 4\tR.H.\nT2\tPER 9 12;14 15\tAnn B\nR1\tRel Arg1:T1\n"
PUBTATOR = "12|t|BRCA1\n12|a|We study it.\n12\t0\t5\tBRCA1\tGene\t672\n"
DOCCANO = '{"id": 1, "text": "Ann ran", "label": [[0, 3, "PER"]]}\n'
PRODIGY = '{"text": "Ann", "tokens": [{"text": "Ann"}], "spans": []}\n'
LABEL_STUDIO = '{"id": 1, "data": {"text": "Ann"}, "annotations": []}\n'
WEBANNO = "\ufeff#FORMAT=WebAnno TSV 3.3\n\n#Text=Ann\n1-1\t0-3\tAnn\tPER\t\n"


@pytest.mark.parametrize(
  "text", [BRAT, PUBTATOR, DOCCANO, PRODIGY, LABEL_STUDIO, WEBANNO]
)
def test_files_that_tag_spans_of_characters_are_refused(tmp_path, text):
  message = r"turn spans of characters.*docs/named_ent|WebAnno: export it as"
  path = _write(tmp_path, text)
  for columns in (COLUMNS, (0, None)):
    with pytest.raises(UserError, match=message):
      examples.read_sentences(path, *columns)


def test_the_code_in_named_entities_md_turns_spans_into_tagged_words(
  tmp_path, capsys
):
  page = (programs.ROOT / "docs/named_entities.md").read_text()
  [block] = re.findall(r"```python\n(.*?)```", page, re.S)
  given = re.search(r"\nspans = .*", block)[0], "Ann Lee ran to Riga."

  def read(spans, text):
    code = block.replace(given[0], f"\nspans = {spans}")
    code = code.replace(given[1], text)
    exec(compile(code, "docs/named_entities.md", "exec"), {})
    path = _write(tmp_path, capsys.readouterr().out)
    [sentence] = examples.read_sentences(path)
    return sentence

  blanks = [(0, 8, "PER"), (14, 19, "LOC")]  # with blanks, as a mouse selects
  assert read(blanks, given[1]).tags == ["B-PER", "I-PER", *"OO", "B-LOC", "O"]
  nested = [(14, 18, "LOC"), (0, 18, "ORG"), (0, 10, "MISC")]
  tags = read(nested, "University of Riga ran.").tags
  assert tags == ["B-ORG", "I-ORG", "I-ORG", "O", "O"]
  sentence = read(given[0].partition(" = ")[2], given[1])
  assert sentence.words == ["Ann", "Lee", "ran", "to", "Riga", "."]
  assert sentence.tags == ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]


def _ontonotes(coreference="(5) - 30) (7|(8 - -", documents=1):
  """Returns columns of CoNLL-2012: document, part, number, word and so on."""
  columns = "a b c d e f", "(PER* *) * * (LOC) *", coreference
  rows = zip(*map(str.split, columns), strict=True)
  sentence = "".join(
    f"bc/%d 0 {i} {word} NN (S* - - - x {entity} * {chain}\n"
    for i, (word, entity, chain) in enumerate(rows)
  )
  return "\n".join(sentence.replace("%d", str(n)) for n in range(documents))


@pytest.mark.parametrize("word_column", [0, 3])
def test_coreference_is_refused_as_tags(tmp_path, word_column):
  path = _write(tmp_path, _ontonotes())
  message = r"'\(5\)' are no word and .*--word_column=3 --tag_column=10"
  with pytest.raises(UserError, match=message):
    examples.read_sentences(path, word_column)
  [sentence] = examples.read_sentences(path, 3, 10)
  assert sentence.words == [*"abcdef"]
  assert sentence.tags == ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]
  assert examples.read_sentences(path, 3, None)[0].words == [*"abcdef"]


SHEET = "Sentence #,Word,POS,Tag\n" + "".join(
  f"Sentence: {i},{word},NN,{tag}\n"
  for i in range(10)
  for word, tag in (("Ann", "B-PER"), ("ran", "O"))
)


@pytest.mark.parametrize(
  ("text", "columns"),
  [
    (SHEET, COLUMNS),
    (_ontonotes("- " * 6, 4), COLUMNS),
    (_ontonotes(documents=4), (0, 10)),
    (_ontonotes(documents=4), (0, None)),
  ],
)
def test_one_text_repeated_in_the_word_column_is_refused(
  tmp_path, text, columns
):
  path = _write(tmp_path, text)
  message = "(Sentence:|bc/.)'.*--word_column=3 --tag_column=10.* a tab and its"
  with pytest.raises(UserError, match=message):
    examples.read_sentences(path, *columns)


# In a column of document names, no name returns after another name, and a file
# is longer than 19 lines.
@pytest.mark.parametrize("words", ["A" * 9 + "CCCC" + "A" * 9, "A" * 19])
def test_a_word_may_repeat_in_a_small_file_or_return_after_other_words(
  tmp_path, words
):
  path = _write(tmp_path, "".join(f"{word} O\n" for word in words))
  assert examples.read_sentences(path)[0].words == [*words]


def test_a_training_reads_its_file_once(tmp_path, monkeypatch):
  path, number, read = _write(tmp_path, TEXT), [], examples.read_sentences
  monkeypatch.setattr(
    examples, "read_sentences", lambda *given: number.append(1) or read(*given)
  )
  known = {}
  assert tagging.find_tags(path, COLUMNS, known) == TAGS
  again = tagging.read_tagged(path, COLUMNS, known, TAGS, needs_tags=True)
  assert again == read(path, *COLUMNS)
  assert len(number) == 1
  assert not known


def test_the_messages_about_a_file_of_unknown_tags_come_once(tmp_path, log):
  text = '1-2\tab\tX\n1\t","\tX\n'
  text += "".join(f"{number}\tw{number}\tX\n" for number in range(2, 202))
  for end in ("", "202\tb\n"):  # a line without a tag
    path = _write(tmp_path, text + end)
    log.clear()
    tagging.read_tagged(path, (1, 2), {}, TAGS, needs_tags=False)
    for part in ("left out 1 lines", "quotes as in .csv", "are one sentence"):
      assert log.text.count(part) == 1
