"""Labels: their order, and the file they are kept in."""

import pytest

from data.tasks import labels


@pytest.mark.parametrize(
  ("found", "ordered"),
  [
    (["10", "2", "-1", "2"], ("-1", "2", "10")),
    (["b", "a", "B", "é", "10", "2"], ("10", "2", "B", "a", "b", "é")),
    (["1.5", "1"], ("1", "1.5")),
    (["01", "1"], ("01", "1")),
    ([], ()),
  ],
)
def test_order(found, ordered):
  assert labels.in_order(found) == ordered


def test_what_is_saved_is_loaded(tmp_path):
  folder = str(tmp_path / "new")
  names = ("not bad", "é", "\u2028", " x ")
  assert labels.save(names, folder).endswith("labels.txt")
  assert labels.load(folder) == names


@pytest.mark.parametrize("names", [["a", ""], ["a\nb"], ["a\tb"], ["a", "a"]])
def test_what_would_not_be_read_back_is_refused(tmp_path, names):
  with pytest.raises(ValueError, match=r"cannot be a line|is there twice"):
    labels.save(names, str(tmp_path))
  assert not list(tmp_path.iterdir())


def test_missing_or_empty(tmp_path):
  with pytest.raises(OSError, match=r"cannot read .*labels\.txt"):
    labels.load(str(tmp_path))
  (tmp_path / "labels.txt").write_text("\n")
  with pytest.raises(ValueError, match=r"labels\.txt is empty"):
    labels.load(str(tmp_path))
