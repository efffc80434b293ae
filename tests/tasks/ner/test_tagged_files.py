"""The tags of a run's files: known, unknown, doubtful and missing tags."""

from functools import partial

import pytest

from data import labels
from storage import UserError
from tasks.ner import examples, tagging

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
  find = path and partial(tagging.find_tags, path, columns)
  return labels.choose(folder, None, find)


def test_the_tags_of_a_model_come_from_the_training_file(tmp_path, folder):
  path = _write(tmp_path, TEXT)
  assert _tags(path, COLUMNS, folder) == TAGS
  assert not labels.exist(folder)  # labels.txt is written later
  for needs_tags in (True, False):
    result = tagging.read_tagged(path, COLUMNS, TAGS, needs_tags)
    assert [s.tags for s in result] == [["B-PET", "O"], ["O", "O", *TAGS[1:]]]
  labels.save_if_missing(TAGS, folder)
  # A prediction ignores a training file that has changed.
  assert _tags(_write(tmp_path, "Rex S-DOG\n"), COLUMNS, folder) == TAGS


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("word O\n" * 201, "x.txt: all 201 words are one sentence"),
    ("word O\n\n" * 20, "x.txt: each of the 20 words is a sentence"),
    (
      "Rex B_PET\nbarks O\nTom B-PET\n",
      "x.txt, line 1: 'B_PET', where BIO (prefix, separator '-') has 'B-P",
    ),
  ],
)
def test_a_doubtful_file_is_reported(tmp_path, caplog, text, message):
  tags = ["O", "B-PET", "B_PET"]
  tagging.read_tagged(_write(tmp_path, text), COLUMNS, tags, True)
  assert message in caplog.text


def test_a_line_with_another_number_of_columns_is_reported(tmp_path, caplog):
  path = _write(tmp_path, "Rex B-PET\nbarks O\n\n1 Tom O\n")
  # Column 0 does not depend on the number of columns.
  examples.read_sentences(path, 0, None)
  assert not caplog.messages
  for _ in range(2):  # a run reads the training file twice
    examples.read_sentences(path)
  [text] = caplog.messages
  assert text.startswith(f"{path}, line 4: 3 columns, but most have 2;")


def test_tags_may_be_in_any_column(tmp_path, folder):
  path = _write(tmp_path, "B-PET x Rex 7\nO y barks 8\n")
  columns = (2, 0)
  assert _tags(path, columns, folder) == ("O", "B-PET")
  [sentence] = tagging.read_tagged(path, columns, TAGS, needs_tags=True)
  assert sentence == examples.Sentence(["Rex", "barks"], ["B-PET", "O"])
  [sentence] = tagging.read_tagged(path, columns, ["O"], needs_tags=False)
  assert sentence == examples.Sentence(["Rex", "barks"], None)


def test_a_training_needs_at_least_two_tags(tmp_path, folder):
  path = _write(tmp_path, "Rex NNP O B-PET\nbarks VBZ O O\n")
  with pytest.raises(ValueError, match=r"x\.txt: every tag is 'O'; .* column"):
    _tags(path, (0, 2), folder)
  assert not labels.exist(folder)
  message = r"no labels\.txt in \S*model .*train_file"
  with pytest.raises(FileNotFoundError, match=message):
    _tags(None, COLUMNS, folder)


def test_a_short_line_in_a_file_with_named_tags_is_refused(tmp_path):
  path = _write(tmp_path, "Rex a b NER=B-PET\nbarks\n")
  with pytest.raises(UserError, match="line 2: 1 column"):
    examples.read_sentences(path, 0, 3)


def test_quotes_around_all_tags_are_refused(tmp_path, folder):
  path = _write(tmp_path, '"Rex" "B-PET"\n"barks" "O"\n')
  with pytest.raises(UserError, match="in quotes: write them without"):
    _tags(path, COLUMNS, folder)
  path = _write(tmp_path, 'Rex "X"\nbarks O\n')
  assert '"X"' in tagging.find_tags(path, COLUMNS)


# Columns: file, error if tags are needed, level and message of the log if not.
@pytest.mark.parametrize(
  ("text", "error", "level", "message"),
  [
    ("Rex O\nTom B-X", "2: 'B-X' .* O, B-PET, I-PET", "WARNING", "2: 'B-X'"),
    ("Rex O\nit O\nTom", "line 3: 1 column", "WARNING", "line 3: 1 column"),
    ("Rex\nbarks", "line 1: 1 column", "INFO", "has no tags: words are tagged"),
  ],
)
def test_words_with_tags_unknown_to_the_model_are_not_scored(
  tmp_path, caplog, text, error, level, message
):
  caplog.set_level("INFO", "absl")
  path = _write(tmp_path, text)
  with pytest.raises(ValueError, match=error):
    tagging.read_tagged(path, COLUMNS, TAGS, needs_tags=True)
  result = tagging.read_tagged(path, COLUMNS, TAGS, needs_tags=False)
  words = [line.split()[0] for line in text.splitlines()]
  assert result == [examples.Sentence(words, None)]
  *_, record = caplog.records
  assert (record.levelname, message in record.message) == (level, True)
  assert "scored" in record.message
