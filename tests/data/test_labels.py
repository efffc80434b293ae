import pickle

import pytest
from absl import logging

from data import labels


@pytest.mark.parametrize(
  ("names", "ordered"),
  [
    (["10", "2", "-1", "2"], ("-1", "2", "10")),
    (["b", "a", "B", "é", "10", "2"], ("10", "2", "B", "a", "b", "é")),
    (["1", "001", "01"], ("001", "01", "1")),
  ],
)
def test_integers_sort_by_value_and_texts_by_code_point(names, ordered):
  assert labels.in_order(names) == ordered


@pytest.mark.parametrize(
  ("cell", "expected"),
  [
    ("", ()),
    (" ", ()),
    ("joy", ("joy",)),
    ("woe | joy|woe", ("woe", "joy")),
    ('["a|b", "c", 7]', ("a|b", "c", "7")),
    ("[]", ()),
  ],
)
def test_a_cell_is_split_into_its_labels(cell, expected):
  assert labels.split(cell, "") == expected


def test_joined_labels_are_split_into_the_same_labels():
  for names in ((), ("woe", "joy"), ("a|b", 'c"'), ("[x", "y"), ("x", "[y]")):
    assert labels.split(labels.join(names), "") == names
  assert labels.join(["woe", "joy"]) == "woe|joy"


@pytest.mark.parametrize(
  "cell",
  [*("['a|b', 'c']", "[1 0]", "a||b"), *('["a", ""]', "[[1]]", "[1.0, 0.0]")],
)
def test_cells_with_python_lists_or_blank_labels_are_reported(cell):
  message = r't\.tsv, line 3: .* blank or .* no JSON list; write \["a", "b"\]'
  with pytest.raises(ValueError, match=message):
    labels.split(cell, "t.tsv, line 3")


def test_saved_labels_are_loaded_unchanged(tmp_path):
  folder = str(tmp_path / "new")
  names = ("not bad", "é", "\u2028", " x ")
  assert labels.save(names, folder).endswith("labels.txt")
  assert labels.load(folder) == names


@pytest.mark.parametrize("names", [["a", ""], ["a\nb"], ["a\rb"], ["a\tb"]])
def test_labels_that_labels_txt_cannot_store_are_refused(tmp_path, names):
  with pytest.raises(ValueError, match="cannot be a line"):
    labels.save(names, str(tmp_path))
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("\n", "labels.txt is empty"),
    ("\ufeffa\nb\na\n", "labels.txt has the label 'a' 2 times"),
  ],
)
def test_an_empty_file_or_repeated_label_is_refused(tmp_path, content, message):
  (tmp_path / "labels.txt").write_text(content, encoding="utf-8")
  with pytest.raises(ValueError, match=message):
    labels.load(str(tmp_path))


def _choose(tmp_path, known=(), in_file=(), **options):
  """Chooses between a checkpoint's labels and a training file's labels."""
  path = labels.save(known, str(tmp_path / "start")) if known else None
  find = (lambda: labels.LabelSet(in_file, "train.tsv")) if in_file else None
  return labels.choose(str(tmp_path / "out"), path, find, **options)


@pytest.mark.parametrize(
  ("known", "in_file", "is_training", "expected"),
  [
    ((), "abc", True, "abc"),
    ("cab", "abc", True, "cab"),  # in the order of the checkpoint's head
    ("ab", "abc", True, "abc"),  # a head for three labels is fresh anyway
    ("cab", "abx", False, "cab"),  # untrained runs use the checkpoint's head
    ("cab", "", True, "cab"),
    ("", "abc", False, "abc"),
  ],
)
def test_labels_come_from_a_checkpoint_or_a_training_file(
  tmp_path, known, in_file, is_training, expected
):
  chosen = _choose(tmp_path, known, in_file, is_training=is_training)
  assert chosen == tuple(expected)
  from_checkpoint = chosen == tuple(known)
  assert chosen.source.endswith(
    "labels.txt" if from_checkpoint else "train.tsv"
  )


def test_labels_that_differ_from_the_checkpoint_need_a_labels_txt(
  tmp_path, caplog
):
  start = f"{tmp_path}/start/labels.txt"
  parts = "the labels are x, y (of train.tsv)", f"is for a, b (of {start})"
  with pytest.raises(ValueError) as error:
    _choose(tmp_path, "ab", "xy")
  for part in (*parts, "new_head", "labels.txt in output_dir"):
    assert part in str(error.value)
  labels.save("yx", str(tmp_path / "out"))
  assert _choose(tmp_path, "ab", "xy") == ("y", "x")
  assert "is for a, b" in caplog.text and "stands for y, x" in caplog.text
  # Without training, the head keeps its labels.
  assert _choose(tmp_path, "ab", "xy", is_training=False) == ("a", "b")
  assert _choose(tmp_path, "ab") == ("a", "b")
  assert _choose(tmp_path) == ("y", "x")


def test_labels_unlike_a_checkpoints_labels_cause_a_warning(caplog):
  known = labels.LabelSet(["CON", "PRO"], "x")
  labels.warn_if_others(("con", "pro"), known)
  # With more labels than before, the head is new, and names do not matter.
  labels.warn_if_others(("con", "pro", "neutral"), known)
  assert not caplog.text
  labels.warn_if_others(("pro", "con"), known)
  assert "is for CON, PRO (of x)" in caplog.text
  assert "stands for pro, con, in this order" in caplog.text


def test_a_label_set_keeps_its_source_and_remedy(tmp_path):
  labels.save("ab", str(tmp_path))
  label_set = labels.LabelSet("ab", "x/labels.txt", "Do this")
  label_set = pickle.loads(pickle.dumps(label_set))
  assert label_set == ("a", "b")
  assert labels.known_labels(label_set) == "a, b (of x/labels.txt). Do this"
  assert labels.known_labels(("a", "b")) == "a, b"
  known = labels.known_labels(labels.load(str(tmp_path)))
  assert f"; init_checkpoint={tmp_path} starts from this model" in known


def test_the_log_counts_the_examples_of_each_label(log):
  labels.log_labels("train.tsv", ["b", "a", "b", "b"], "abcd")
  assert log.messages == [
    "train.tsv: 4 examples; b: 3 (75.0 %), a: 1 (25.0 %)",
    "train.tsv: no example of c, d",
  ]
  labels.log_labels("x", map(str, range(20)))
  assert "in all" not in log.text
  labels.log_labels("x", map(str, range(21)))
  assert "21 in all" in log.text
  labels.log_labels("x", ["nan", "-", "none"])
  assert log.text.count("is it a missing value?") == 2


def test_labels_that_differ_only_in_case_blanks_or_0_are_reported_once(
  log, monkeypatch
):
  monkeypatch.setattr(logging, "_log_counter_per_token", {})  # none so far
  numbers = ["1", "1.0", "1,000", "10", "01", "0", "E10", "E10.0"]
  for name in ("train.tsv", "dev.tsv"):
    names = ["Sport", "sport", "spo rt", "music", "True", "TRUE", *numbers]
    labels.log_labels(name, names)
  [warning] = [r for r in log.records if r.levelname == "WARNING"]
  assert warning.getMessage() == (
    "train.tsv: '1' (1) and '1.0' (1); 'Sport' (1) and 'spo rt' (1) and 'sport'"
    " (1); 'TRUE' (1) and 'True' (1) differ only in case, blanks or .0: do "
    "they mean the same?"
  )
