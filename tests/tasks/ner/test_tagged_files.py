"""The tags of a run's files: known, unknown and missing tags."""

import re
from functools import partial

import pytest

from data import labels
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
  find = partial(tagging.find_tags, path, columns)
  return labels.choose(folder, None, find)


def test_the_tags_of_a_model_come_from_the_training_file(tmp_path, folder):
  path = _write(tmp_path, TEXT)
  assert _tags(path, COLUMNS, folder) == TAGS
  assert not labels.exist(folder)  # labels.txt is written later
  for needs_tags in (True, False):
    result = tagging.read_tagged(path, COLUMNS, TAGS, needs_tags)
    assert [s.tags for s in result] == [["B-PET", "O"], ["O", "O", *TAGS[1:]]]
  labels.save(TAGS, folder)
  # A prediction ignores a training file that has changed.
  assert _tags(_write(tmp_path, "Rex S-DOG\n"), COLUMNS, folder) == TAGS


def test_a_training_needs_at_least_two_tags(tmp_path, folder):
  path = _write(tmp_path, "Rex NNP O B-PET\nbarks VBZ O O\n")
  with pytest.raises(ValueError, match=r"x\.txt: every tag is 'O'; .* column"):
    _tags(path, (0, 2), folder)
  assert not labels.exist(folder)


@pytest.mark.parametrize(
  ("text", "error"),
  [
    ("Rex O\nTom B-X", "x.txt, line 2: 'B-X' is none .* O, B-PET, I-PET"),
    ("Rex\nTom", "x.txt, line 1: 1 column"),
    ("Rex _\nTom _", "x.txt, line 1: '_' is none of the model's"),
    ('{"tokens": ["Rex", "Tom"]}', "x.txt, line 1: expected ner_tags"),
    ('{"tokens": ["Rex", "Tom"], "tags": ["O", "B-X"]}', "line 1: 'B-X' is"),
  ],
)
def test_words_with_unknown_or_missing_tags_are_not_scored(
  tmp_path, caplog, text, error
):
  path = _write(tmp_path, text)
  with pytest.raises(ValueError, match=error):
    tagging.read_tagged(path, COLUMNS, TAGS, needs_tags=True)
  assert not caplog.messages
  [sentence] = tagging.read_tagged(path, COLUMNS, TAGS, needs_tags=False)
  assert (sentence.words, sentence.tags) == (["Rex", "Tom"], None)
  message = f"words are tagged, but nothing is scored: .*{error}"
  assert re.search(message, caplog.messages[-1])


def test_the_code_in_named_entities_md_turns_spans_into_tagged_words(
  tmp_path, capsys
):
  page = (programs.ROOT / "docs/named_entities.md").read_text()
  [block] = re.findall(r"```python\n(.*?)```", page, re.S)
  exec(compile(block, "docs/named_entities.md", "exec"), {})
  path = _write(tmp_path, capsys.readouterr().out)
  [sentence] = examples.read_sentences(path)
  assert sentence.words == ["Ann", "Lee", "ran", "to", "Riga", "."]
  assert sentence.tags == ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]
