"""Tasks with the user's own files: formats, columns, and labels.txt."""

import json
from functools import partial

import pytest

from tasks.classification import examples, named_tasks
from tasks.classification.examples import TextExample
from tests import programs

TRAIN = "kind\tbody\tid\ngood\tA\t1\nbad\tB\t2\n"


def lay_out(folder, **files):
  """Writes files: train_tsv is the content of train.tsv."""
  folder.mkdir(exist_ok=True)
  for name, content in files.items():
    content = content if isinstance(content, bytes) else content.encode()
    (folder / name.replace("_", ".")).write_bytes(content)
  return str(folder)


def task_of(data, output, do_train=True, init_checkpoint=None, **changes):
  """Returns the task of --task_name=tsv with these flags."""
  flags = {"task_name": "tsv", "data_dir": data, "text_a_column": "body"}
  flags |= {"output_dir": output, "do_train": do_train}
  flags |= {"label_column": "kind"} | changes
  settings = programs.arguments("run_classifier", **flags)
  return named_tasks.with_labels(settings, init_checkpoint)


def test_labels_are_sorted(tmp_path):
  data = lay_out(tmp_path / "data", train_tsv=TRAIN)
  output = str(tmp_path / "out")
  task = task_of(data, output)
  assert task.labels == ("bad", "good")
  assert task.metrics == ("accuracy", "f1")
  assert not (tmp_path / "out").exists()  # written after all files are read
  assert examples.read_examples(task, data, "train") == [
    TextExample("train-1", "A", None, "good"),
    TextExample("train-2", "B", None, "bad"),
  ]


def test_predicting_needs_neither_training_data_nor_labels(tmp_path):
  data = lay_out(tmp_path / "data", test_tsv="id\tbody\n1\tA\n")
  output = lay_out(tmp_path / "out", labels_txt="y\nx\nz\n")
  task = task_of(data, output)
  assert task.labels == ("y", "x", "z")  # stored order, not sorted
  assert task.metrics == ("accuracy",)
  # The labels of a test file are ignored.
  for content in ("id\tbody\n1\tA\n", "kind\tbody\n?\tA\n"):
    lay_out(tmp_path / "data", test_tsv=content)
    rows = examples.read_examples(task, data, "test")
    assert rows == [TextExample("test-1", "A")]


def test_two_texts_in_csv_and_jsonl(tmp_path):
  data = lay_out(
    tmp_path / "data",
    train_csv='q,a,ok\n"1, 2",x,yes\n3,"say ""no""",no\n',
    dev_jsonl='{"q": "1", "a": "", "ok": "no", "more": {}}\n',
  )
  columns = {"text_a_column": "q", "text_b_column": "a", "label_column": "ok"}
  read = partial(examples.read_examples, task_of(data, "no", **columns), data)
  assert read("train") == [
    TextExample("train-1", "1, 2", "x", "yes"),
    TextExample("train-2", "3", 'say "no"', "no"),
  ]
  assert read("dev") == [TextExample("dev-0", "1", "", "no")]


def _read(tmp_path, split, **changes):
  task = task_of(str(tmp_path), str(tmp_path / "out"), **changes)
  rows = examples.read_examples(task, str(tmp_path), split)
  return [(row.text_a, row.text_b, row.label) for row in rows]


def test_own_files_may_be_those_of_a_spreadsheet(tmp_path):
  flags = {"encoding": "cp1252", "text_b_column": "Bezug"}
  rows = "body;Bezug;kind;;", "schön;–;gut ;;", ";;;;", "b;c; nein;;", ""
  lay_out(
    tmp_path,
    train_csv="\r\n".join(rows).encode("cp1252"),
    dev_txt="Bezug|body|kind\r\nx|y|nein\r\n".encode("utf-16"),
  )
  expected = [("schön", "–", "gut"), ("b", "c", "nein")]
  assert _read(tmp_path, "train", **flags) == expected
  assert _read(tmp_path, "dev", **flags) == [("y", "x", "nein")]
  with pytest.raises(ValueError, match=r"train\.csv, line 2: byte 0xf6 is not"):
    _read(tmp_path, "train")
  with pytest.raises(ValueError, match="there are 'body;Bezug;kind;;'"):
    _read(tmp_path, "train", **flags, delimiter="comma")


def test_a_text_file_counts_if_there_is_no_table(tmp_path):
  text = TRAIN.replace("A", '"A\nB"')
  lay_out(tmp_path, train_txt=text)
  assert _read(tmp_path, "train")[0][0] == "A\nB"
  lay_out(tmp_path, train_tsv=TRAIN, dev_csv="x", dev_jsonl="{}", dev_txt="")
  with pytest.raises(
    ValueError, match=r"dev\.csv and dev\.jsonl and dev\.txt; "
  ):
    _read(tmp_path, "train")
  for name in ("dev.csv", "dev.jsonl"):
    (tmp_path / name).unlink()
  assert _read(tmp_path, "train")[0][0] == "A"


@pytest.mark.parametrize(
  "train, dev",
  [
    *(("1", "1.0"), ("1.0", "1"), ("1", "1.00"), ("1.0", "1."), ("1", "01")),
    *(("1", "1,0"), ("1,0", "1"), ("TRUE", "True"), ("true", "TRUE")),
    ("A", "a"),
  ],
)
def test_a_label_is_spelled_as_in_training(tmp_path, train, dev):
  lay_out(tmp_path, train_csv=f"body;kind\na;{train}\nb;0\n")
  lay_out(tmp_path, dev_csv=f"body;kind\na; {dev} \n")
  if dev in ("01", "a"):  # 01 may be a code, not a number
    with pytest.raises(
      ValueError, match=rf"dev\.csv, line 2.* '{dev}' is no label"
    ):
      _read(tmp_path, "dev")
  else:
    assert _read(tmp_path, "dev") == [("a", None, train)]


def test_a_blank_label_is_named_with_its_line(tmp_path):
  lay_out(tmp_path, train_csv="body,kind\na,1\nb,0\n")
  lay_out(tmp_path, dev_csv="body,kind\na,1\n\n,1\nb, \n")
  with pytest.raises(ValueError, match=r"dev\.csv, line 5, .*: '' is no label"):
    _read(tmp_path, "dev")


@pytest.mark.parametrize(
  ("cell", "score"),
  [("4,5", "4.5"), ("-0,125", "-0.125"), ("12,3456", "12.3456"), (" 2", "2")],
)
def test_a_score_may_have_a_decimal_comma(tmp_path, cell, score):
  lay_out(tmp_path, train_csv=f"body;kind\na;{cell}\n")
  result = _read(tmp_path, "train", is_regression=True)
  assert result == [("a", None, score)]


def test_a_point_among_decimal_commas_may_be_one_of_thousands(tmp_path):
  for cells, line in (("4,5;0.125;-1.234", 4), ("2;3.5;1.234", None)):
    content = cells.replace(";", "\na;")
    lay_out(tmp_path, train_csv=f"body;kind\na;{content}\n")
    if line:
      with pytest.raises(ValueError, match=r"csv, line 4.*'-1\.234'.* 4,5 has"):
        _read(tmp_path, "train", is_regression=True)
    else:
      assert len(_read(tmp_path, "train", is_regression=True)) == 3


def test_blank_texts_are_read_and_said(tmp_path, caplog):
  lay_out(tmp_path, train_csv="body,b,kind\n,x,1\nb,\u200b,0\nc,y,1\n")
  rows = _read(tmp_path, "train", text_b_column="b")
  assert [row[0] for row in rows] == ["", "b", "c"]
  for line, name in ((2, "body"), (3, "b")):
    assert f"1 of 3 texts in '{name}' are blank (lines {line})" in caplog.text


def test_columns_that_predictions_repeat(tmp_path):
  lines = '{"body": "x", "id": 7}\n{"body": "y"}\n'
  data = lay_out(tmp_path / "d", train_tsv=TRAIN, test_jsonl=lines)
  task = task_of(data, str(tmp_path / "o"))
  read = partial(examples.read_examples, task, data, "test")
  assert [row.columns for row in read()] == [None, None]
  assert [row.columns for row in read(["id"])] == [{"id": "7"}, {}]
  everything = [row.columns for row in read(("all",))]  # as the flag has it
  assert everything == [{"body": "x", "id": "7"}, {"body": "y"}]
  with pytest.raises(ValueError, match=r"no column 'ID', .* are 'body', 'id'"):
    read(["ID"])


@pytest.mark.parametrize("score", ["x", "", "nan", "inf", "1,234", "1,5,6"])
def test_scores_need_no_labels_but_have_to_be_numbers(tmp_path, score):
  data = lay_out(tmp_path / "data", train_tsv="body\tkind\nx\t-1e3\n")
  task = task_of(data, "nowhere", is_regression=True)
  assert task.is_regression
  assert examples.read_examples(task, data, "train")[0].label == "-1e3"
  lay_out(tmp_path / "data", train_tsv=f"body\tkind\nx\t1\nx\t{score}\n")
  with pytest.raises(ValueError, match=rf"line 3.*'{score}' is not a number"):
    examples.read_examples(task, data, "train")


def test_an_unknown_label_in_dev_is_named(tmp_path):
  files = {"train_tsv": TRAIN, "dev_tsv": "kind\tbody\nugly\tA\n"}
  data = lay_out(tmp_path / "d", **files)
  task = task_of(data, str(tmp_path / "o"))
  message = r"dev\.tsv, line 2.*'ugly' .* labels are bad, good"
  with pytest.raises(ValueError, match=message):
    examples.read_examples(task, data, "dev")


@pytest.mark.parametrize(
  ("content", "columns", "message"),
  [
    (TRAIN, {"text_a_column": "text"}, "'text'; there are 'kind', 'body'"),
    (TRAIN, {"label_column": "label"}, "no column 'label'; there are"),
    ("kind\tbody\nx\tA\n", {}, r"train\.tsv: the only label is 'x'"),
    ("kind\tbody\nx\tA\n \tB\n", {}, "line 3: kind is blank"),
    (TRAIN, {"task_name": "ts"}, "unknown task 'ts'; known are CoLA"),
  ],
)
def test_training_files_that_do_not_do(tmp_path, content, columns, message):
  data = lay_out(tmp_path / "data", train_tsv=content)
  with pytest.raises(ValueError, match=message):
    task_of(data, str(tmp_path / "o"), **columns)
  assert not (tmp_path / "o").exists()


def test_no_file_or_too_many(tmp_path):
  data = lay_out(tmp_path / "data")
  with pytest.raises(FileNotFoundError, match=r"no file train, dev or test"):
    task_of(data, None)
  lay_out(tmp_path / "data", dev_tsv="x")
  with pytest.raises(FileNotFoundError, match="the labels are unknown"):
    task_of(data, str(tmp_path / "out"))
  lay_out(tmp_path / "data", dev_csv="x")
  with pytest.raises(ValueError, match=r"dev\.tsv and dev\.csv; remove one"):
    task_of(data, None)


def _record(folder, **flags):
  entry = {"program": "run_classifier", "flags": flags}
  (folder / "run.json").write_text(json.dumps([entry]))


def test_a_model_of_pairs_is_given_pairs(tmp_path):
  _record(tmp_path, task_name="TSV", text_b_column="id")
  start = str(tmp_path / "model.ckpt-1")
  with pytest.raises(ValueError, match=r"ckpt-1 was trained with --text_b_col"):
    named_tasks.check_text_pairs(None, start)
  named_tasks.check_text_pairs("body", start)
  _record(tmp_path, task_name="MRPC")
  named_tasks.check_text_pairs("body", start)


def test_a_teacher_has_the_labels_of_the_task(tmp_path):
  path = str(tmp_path / "run.json")
  files = {"bert_config_file": path, "vocab_file": path}
  rte, check = named_tasks.find("RTE"), named_tasks.check_teacher
  _record(tmp_path, task_name="mrpc", **files)
  with pytest.raises(ValueError, match=r"labels, .* 0, 1 and entailment, not_"):
    check(str(tmp_path), rte)
  check(str(tmp_path), named_tasks.find("SST-2"))
  _record(tmp_path, task_name="TSV", **files)  # predicts scores
  check(str(tmp_path), rte)
  (tmp_path / "labels.txt").write_text("entailment\nno\n")
  with pytest.raises(ValueError, match=r"order: entailment, no \(of"):
    check(str(tmp_path), rte)
