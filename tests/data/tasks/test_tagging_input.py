"""Files of tagged words: where tags come from, and what is recorded."""

import pytest

from data import features, records
from data.tasks import conll, labels, tagging, tagging_input
from data.tasks.tagging_input import Columns
from data.tokenization import FullTokenizer

TAGS = ("O", "B-PET", "I-PET")
TEXT = """Rex B-PET
barks O

we O
saw O
old B-PET
Tom I-PET
"""


@pytest.fixture(name="folder")
def _folder(tmp_path):
  """A model's folder."""
  return str(tmp_path / "model")


def _write(tmp_path, text, name="x.txt"):
  (tmp_path / name).write_text(text)
  return str(tmp_path / name)


def test_tags_are_those_of_the_training_file_and_kept(tmp_path, folder):
  path = _write(tmp_path, TEXT)
  assert tagging_input.tag_set(path, Columns(), folder) == TAGS
  assert not labels.exist(folder)  # until all files have been read well
  labels.keep(TAGS, folder)
  # Whoever predicts needs no training file; one that changed is not asked.
  assert tagging_input.tag_set(None, Columns(), folder) == TAGS
  _write(tmp_path, "Rex S-DOG\n")
  assert tagging_input.tag_set(path, Columns(), folder) == TAGS
  assert labels.load(folder) == TAGS


def test_tags_may_be_in_any_column(tmp_path, folder):
  path = _write(tmp_path, "B-PET x Rex 7\nO y barks 8\n")
  columns = Columns(words=2, tags=0)
  assert tagging_input.tag_set(path, columns, folder) == ("O", "B-PET")
  [sentence] = tagging_input.read(path, columns, TAGS, needs_tags=True)
  assert sentence == conll.Sentence(["Rex", "barks"], ["B-PET", "O"])


def test_without_tags_and_without_a_file_to_find_them_in(folder):
  with pytest.raises(
    FileNotFoundError, match=r"model has no labels\.txt, .* no --train_file"
  ):
    tagging_input.tag_set(None, Columns(), folder)


def test_a_single_tag_is_nothing_to_learn(tmp_path, folder):
  path = _write(tmp_path, "Rex NNP O B-PET\nbarks VBZ O O\n")
  with pytest.raises(ValueError, match=r"x\.txt: every tag is 'O'; .* column"):
    tagging_input.tag_set(path, Columns(tags=2), folder)
  assert not labels.exist(folder)


def test_unknown_tags_are_an_error_where_tags_are_needed(tmp_path, caplog):
  path = _write(tmp_path, TEXT)
  for needs_tags in (True, False):
    found = tagging_input.read(path, Columns(), TAGS, needs_tags)
    assert [sentence.tags for sentence in found] == [
      ["B-PET", "O"],
      ["O", "O", "B-PET", "I-PET"],
    ]
  message = r"x\.txt, line 7: 'I-PET' .* O, B-PET"
  with pytest.raises(ValueError, match=message):
    tagging_input.read(path, Columns(), TAGS[:2], needs_tags=True)
  with caplog.at_level("INFO", logger="absl"):
    found = tagging_input.read(path, Columns(), TAGS[:2], needs_tags=False)
  [said] = caplog.records
  assert said.levelname == "WARNING"
  assert "x.txt, line 7: 'I-PET'" in said.getMessage()
  assert "there are no scores" in said.getMessage()
  assert found[1] == conll.Sentence(["we", "saw", "old", "Tom"], None, 0, 4)


def test_words_alone_are_enough_to_predict(tmp_path):
  path = _write(tmp_path, "Rex\nbarks\n")
  with pytest.raises(ValueError, match="line 1: 1 columns"):
    tagging_input.read(path, Columns(), TAGS, needs_tags=True)
  [sentence] = tagging_input.read(path, Columns(), TAGS, needs_tags=False)
  assert sentence == conll.Sentence(["Rex", "barks"], None)


def test_what_has_no_words_either_is_an_error(tmp_path):
  with pytest.raises(ValueError, match=r"x\.txt has no words"):
    tagging_input.read(_write(tmp_path, "\n"), Columns(), TAGS, False)
  with pytest.raises(OSError, match=r"cannot read .*no\.txt"):
    tagging_input.read(str(tmp_path / "no.txt"), Columns(), TAGS, False)


VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "rex", "barks", "we", "saw"]


def test_a_record_for_every_window(tmp_path):
  _write(tmp_path, "\n".join(VOCABULARY), "vocab.txt")
  tokenizer = FullTokenizer(tmp_path / "vocab.txt")
  text = conll.read(_write(tmp_path, TEXT))
  path = str(tmp_path / "new" / "records")
  build = tagging.Builder(tokenizer, 5, TAGS)
  found = tagging_input.record(text, path, build, 5, fixed=True)
  assert found.sentences == text
  assert found.examples == [
    tagging.Window(0, 0, [1, 2]),
    tagging.Window(1, 0, [1, 2]),  # cut in two, each with its neighbour
    tagging.Window(1, 2, [2, 3]),
  ]
  assert (found.path, found.fixed) == (path, True)
  [batch] = records.evaluation([path], features.tagging(5), 9)
  assert batch["input_ids"].numpy().tolist() == [
    [2, 4, 5, 3, 0],
    [2, 6, 7, 1, 3],
    [2, 7, 1, 1, 3],
  ]
  assert batch["label_ids"].numpy().tolist() == [
    [-1, 1, 0, -1, -1],
    [-1, 0, 0, -1, -1],
    [-1, -1, 1, 2, -1],
  ]
