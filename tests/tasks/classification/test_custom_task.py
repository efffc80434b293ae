"""--task_name=tsv: a user's own files of texts with labels or scores."""

import gzip
from functools import partial
from unittest import mock

import pytest

from data import labels
from tasks.classification import examples, named_tasks
from tasks.classification.examples import TextExample
from tests import programs
from training import checkpoint_files

TRAIN = "kind\tbody\tid\ngood\tA\t1\nbad\tB\t2\n"


def write_files(folder, **files):
  """Writes files; for example, `train_tsv` is the content of train.tsv."""
  folder.mkdir(exist_ok=True)
  for name, content in files.items():
    content = content if isinstance(content, bytes) else content.encode()
    (folder / name.replace("_", ".")).write_bytes(content)
  return str(folder)


def task_of(data, output, do_train=True, init_checkpoint=None, **changes):
  """Returns the task for these flags, with --task_name=tsv by default."""
  flags = {"task_name": "tsv", "data_dir": data, "text_a_column": "body"}
  flags |= {"output_dir": output, "do_train": do_train}
  flags |= {"label_column": "kind"} | changes
  settings = programs.arguments("run_classifier", **flags)
  return named_tasks.with_labels(settings, init_checkpoint)


def _read(tmp_path, split, **changes):
  task = task_of(str(tmp_path), str(tmp_path / "out"), **changes)
  rows = examples.read_examples(task, str(tmp_path), split)
  return [(row.text_a, row.text_b, row.label) for row in rows]


def test_labels_of_a_training_file_are_sorted(tmp_path):
  data = write_files(tmp_path / "data", train_tsv=TRAIN)
  task = task_of(data, str(tmp_path / "out"))
  assert task.labels == ("bad", "good")
  assert task.metrics == ("accuracy", "f1")
  assert not (tmp_path / "out").exists()  # labels.txt is written later
  assert examples.read_examples(task, data, "train") == [
    TextExample("train-1", "A", None, "good"),
    TextExample("train-2", "B", None, "bad"),
  ]


def test_predicting_needs_neither_a_training_file_nor_a_label_column(tmp_path):
  output = write_files(tmp_path / "out", labels_txt="y\nx\nz\n")
  # The labels of a test file are ignored.
  for content in ("id\tbody\n1\tA\n", "kind\tbody\n?\tA\n"):
    data = write_files(tmp_path / "data", test_tsv=content)
    task = task_of(data, output)
    assert task.labels == ("y", "x", "z")  # stored order, not sorted
    assert task.metrics == ("accuracy",)
    rows = examples.read_examples(task, data, "test")
    assert rows == [TextExample("test-1", "A")]


def test_each_split_has_one_file(tmp_path):
  write_files(tmp_path)
  with pytest.raises(FileNotFoundError, match="no file train, dev or test"):
    _read(tmp_path, "train")
  write_files(tmp_path, dev_json='{"body": "C", "kind": "good"}')
  with pytest.raises(FileNotFoundError, match="the labels are unknown"):
    _read(tmp_path, "dev")
  write_files(tmp_path, train_txt_gz=gzip.compress(TRAIN.encode()))
  assert _read(tmp_path, "train")[0] == ("A", None, "good")
  assert _read(tmp_path, "dev") == [("C", None, "good")]
  write_files(tmp_path, dev_csv_gz=b"x")
  with pytest.raises(ValueError, match=r"dev\.csv\.gz and dev\.json: remove"):
    _read(tmp_path, "train")


def _rows(*rows):
  return "body\tkind\n" + "".join(f"{row}\n" for row in rows)


@pytest.mark.parametrize(
  ("train", "dev", "expected"),
  [
    ("0 1", "1.0", "1"),
    ("0 1.0", "1", "1.0"),
    ("0 TRUE", "True", "TRUE"),
    ("1 1.0", "1", "1"),
  ],
)
def test_a_dev_label_gets_the_spelling_of_the_training_file(
  tmp_path, train, dev, expected
):
  rows = (f"a\t{label}" for label in train.split())
  write_files(tmp_path, train_tsv=_rows(*rows), dev_tsv=_rows(f"a\t {dev} "))
  assert _read(tmp_path, "dev") == [("a", None, expected)]


def test_labels_are_prepared_once_for_all_rows(tmp_path, monkeypatch):
  write_files(tmp_path, train_tsv=_rows(*(f"a\t{i}" for i in range(90))))
  plain = mock.Mock(wraps=labels.plain)
  monkeypatch.setattr(labels, "plain", plain)
  assert len(_read(tmp_path, "train")) == 90
  assert plain.call_count <= 180


@pytest.mark.parametrize("cell", ["x", " ", "nan", "inf", "4,5"])
def test_scores_have_to_be_numbers(tmp_path, cell):
  write_files(tmp_path, train_tsv=_rows("a\t1", f"a\t{cell}"))
  message = f"line 3.*'{cell.strip()}' is not a number"
  with pytest.raises(ValueError, match=message):
    _read(tmp_path, "train", is_regression=True)
  write_files(tmp_path, train_tsv=_rows("a\t -1e3"))
  assert _read(tmp_path, "train", is_regression=True) == [("a", None, "-1e3")]


SEVERAL = {"multi_label": True}


@pytest.mark.parametrize(
  ("train", "flags", "message"),
  [
    (_rows("A\tx"), {}, r"train\.tsv: the only label is 'x'"),
    (_rows("A\tx", "B\t "), {}, "line 3, column kind is blank"),
    (_rows("A\t"), SEVERAL, "kind has no label, or only 0 and 1"),
    (_rows("A\t[1, 0]", "B\t[0, 1]"), SEVERAL, "kind has .* only 0 and 1"),
  ],
)
def test_unusable_files_and_flags_are_refused(tmp_path, train, flags, message):
  data = write_files(tmp_path / "data", train_tsv=train)
  with pytest.raises(ValueError, match=message):
    task_of(data, str(tmp_path / "out"), **flags)
  assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
  ("dev", "flags", "message"),
  [
    (_rows("a\tA"), {}, "line 2.* 'A' is not a label"),
    (_rows("a\t1", "", "\t1", "b\t "), {}, "line 5, .*: '' is .*labels are 1"),
    (_rows("a\t1|2"), SEVERAL, "line 2.*'2' is not a label"),
  ],
)
def test_an_unknown_label_in_dev_is_reported(tmp_path, dev, flags, message):
  write_files(tmp_path, train_tsv=_rows("a\t1", "b\ta"), dev_tsv=dev)
  with pytest.raises(ValueError, match=rf"dev\.tsv, {message}"):
    _read(tmp_path, "dev", **flags)


@pytest.mark.parametrize("separator", ["|", ", "])
def test_a_warning_says_no_text_has_several_labels(tmp_path, caplog, separator):
  write_files(tmp_path, train_tsv=_rows(f"a\tx{separator}y", "b\tz"))
  task_of(str(tmp_path), str(tmp_path / "out"), **SEVERAL)
  text = "no text has several labels; '|' separates labels"
  assert (text in caplog.text) == (separator == ", ")


def test_a_warning_says_nearly_every_row_has_its_own_label(tmp_path, caplog):
  write_files(tmp_path, train_tsv=_rows(*(f"a\t{i}.5" for i in range(20))))
  task_of(str(tmp_path), str(tmp_path / "out"))
  assert "20 labels in 20 rows: is kind the right --l" in caplog.text


def test_blank_texts_of_both_columns_are_reported(tmp_path, caplog):
  write_files(tmp_path, train_csv="body,b,kind\n,x,1\nb, ,0\nc,y,1\n")
  rows = _read(tmp_path, "train", text_b_column="b")
  assert [row[0] for row in rows] == ["", "b", "c"]
  for line, name in ((2, "body"), (3, "b")):
    text = f"1 of 3 texts in '{name}' are blank (the first: line {line})"
    assert text in caplog.text


def test_examples_have_the_columns_named_by_prediction_columns(tmp_path):
  lines = '{"body": "x", "id": 7}\n{"body": "y"}\n'
  data = write_files(tmp_path / "d", train_tsv=TRAIN, test_jsonl=lines)
  task = task_of(data, str(tmp_path / "o"))
  read = partial(examples.read_examples, task, data, "test")
  assert [row.columns for row in read()] == [None, None]
  assert [row.columns for row in read(["id"])] == [{"id": "7"}, {}]
  everything = [row.columns for row in read(("all",))]
  assert everything == [{"body": "x", "id": "7"}, {"body": "y"}]
  with pytest.raises(ValueError, match=r"no column 'ID' .* are 'body', 'id'"):
    read(["ID"])


def test_a_model_of_a_task_with_other_labels_causes_a_warning(tmp_path, caplog):
  checkpoint_files.append_run(str(tmp_path), {"flags": {"task_name": "mrpc"}})
  for name, message in (("QQP", ""), ("RTE", "is for 0, 1 (of mrpc, the task")):
    flags = {"task_name": name, "output_dir": str(tmp_path)}
    flags["init_checkpoint"] = str(tmp_path)
    named_tasks.with_labels(programs.arguments("run_classifier", **flags), None)
    assert message in caplog.text and bool(message) == bool(caplog.messages)


def test_a_teacher_must_have_the_labels_of_the_student(tmp_path):
  rte, check = named_tasks.find("RTE"), named_tasks.check_teacher
  checkpoint_files.append_run(str(tmp_path), {"flags": {"task_name": "mrpc"}})
  with pytest.raises(ValueError, match=r", 1 \(of .* and entailment, not_"):
    check(str(tmp_path), rte)
  check(str(tmp_path), named_tasks.find("SST-2"))  # has the labels of MRPC
  # The last run of the folder predicts scores.
  checkpoint_files.append_run(str(tmp_path), {"flags": {"task_name": "TSV"}})
  check(str(tmp_path), rte)
  (tmp_path / "labels.txt").write_text("entailment\nno\n")
  with pytest.raises(ValueError, match=r"order: entailment, no \(of"):
    check(str(tmp_path), rte)
