"""--task_name=tsv: a user's own files of texts with labels or scores."""

import gzip
import json
import re
from functools import partial

import pytest

from tasks.classification import examples, named_tasks
from tasks.classification.examples import TextExample
from tests import programs

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


def test_a_users_files_may_come_from_a_spreadsheet(tmp_path):
  flags = {"encoding": "cp1252", "text_b_column": "Bezug"}
  rows = "body;Bezug;kind;;", "schön;–;gut ;;", ";;;;", "b;c; nein;;", ""
  write_files(
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


def test_train_tsv_overrides_train_txt_but_four_dev_files_are_refused(tmp_path):
  write_files(tmp_path)
  with pytest.raises(FileNotFoundError, match="no file train, dev or test"):
    _read(tmp_path, "train")
  write_files(tmp_path, dev_json='{"body": "C", "kind": "good"}')
  with pytest.raises(FileNotFoundError, match="the labels are unknown"):
    _read(tmp_path, "dev")
  write_files(tmp_path, train_txt=TRAIN.replace("A", '"A\nB"'))
  assert _read(tmp_path, "train")[0] == ("A\nB", None, "good")
  write_files(tmp_path, train_tsv=TRAIN)
  assert _read(tmp_path, "train")[0] == ("A", None, "good")
  assert _read(tmp_path, "dev") == [("C", None, "good")]
  write_files(tmp_path, dev_jsonl="x", dev_csv="x", dev_txt="")
  message = r"dev\.csv and dev\.jsonl and dev\.json and dev\.txt; remove one"
  with pytest.raises(ValueError, match=message):
    _read(tmp_path, "train")


def test_a_users_files_may_be_compressed(tmp_path):
  write_files(tmp_path, train_csv_gz=gzip.compress(b"body,kind\nx,1\ny,0\n"))
  assert _read(tmp_path, "train") == [("x", None, "1"), ("y", None, "0")]
  write_files(tmp_path, train_txt_gz=b"")
  with pytest.raises(ValueError, match=r"csv\.gz and train\.txt\.gz; remove"):
    _read(tmp_path, "train")
  write_files(tmp_path, train_csv="body,kind\nz,2\nx,1\n")
  assert _read(tmp_path, "train")[0] == ("z", None, "2")  # after gunzip -k


@pytest.mark.parametrize("name", ["train.CSV", "Test.xlsx", "dev.csv.bz2"])
def test_an_error_names_files_with_similar_names(tmp_path, name):
  (tmp_path / name).touch()
  (tmp_path / "notes.csv").touch()
  message = f"no file train, .* [.]txt; similar files: {re.escape(name)}$"
  with pytest.raises(FileNotFoundError, match=message):
    _read(tmp_path, "train")


def _rows(*rows):
  return "body\tkind\n" + "".join(f"{row}\n" for row in rows)


@pytest.mark.parametrize(
  ("train", "dev"),
  [
    *(("1", "1.0"), ("1.0", "1"), ("1", "1.00"), ("1.0", "1."), ("1", "1,0")),
    *(("1,0", "1"), ("TRUE", "True"), ("true", "TRUE")),
    *(("caf\xe9", "cafe\u0301"), ("cafe\u0301", "caf\xe9")),
    *(("x", "x\u200b"), ("x\u200b", "\ufeffx")),
  ],
)
def test_a_dev_label_gets_the_spelling_of_the_training_file(
  tmp_path, train, dev
):
  write_files(tmp_path, train_tsv=_rows(f"a\t{train}", "b\t0"))
  write_files(tmp_path, dev_tsv=_rows(f"a\t {dev} "))
  assert _read(tmp_path, "dev") == [("a", None, train)]


@pytest.mark.parametrize(
  ("cells", "scores"),
  [
    # A score may have a decimal comma.
    (["4,5", "-0,125"], ["4.5", "-0.125"]),
    (["1,846", "4,6"], ["1.846", "4.6"]),
    (["12,3456", " 2", "-1e3"], ["12.3456", "2", "-1e3"]),
    # With decimal commas, a point may separate thousands, so -1.234 is refused.
    (["2", "3.5", "1.234"], ["2", "3.5", "1.234"]),
    (["4,5", "0.125", "-1.234"], r"line 4.*'-1\.234'.* 4,5 has"),
    *(
      (["1", cell], f"line 3.*'{cell.strip()}' is not a number")
      for cell in ("x", " ", "nan", "inf", "1,234", "1,5,6")
    ),
    (["1,200"], "'1,200' is not a number, .* no score; write 1200 or 1.2$"),
  ],
)
def test_scores_have_to_be_numbers(tmp_path, cells, scores):
  write_files(tmp_path, train_tsv=_rows(*(f"a\t{cell}" for cell in cells)))
  if isinstance(scores, str):
    with pytest.raises(ValueError, match=scores):
      _read(tmp_path, "train", is_regression=True)
    return
  result = _read(tmp_path, "train", is_regression=True)
  assert result == [("a", None, score) for score in scores]


@pytest.mark.parametrize(
  ("cells", "is_reported"),
  [
    (["950", "-1.200", "12.500", "7"], True),
    (["950", "1.200", "0.500"], False),  # 0.500 cannot be 500
    (["950", "1.200", "1.5"], False),  # 1.5 cannot be 15
    (["95", "1.200"], False),  # no score from 100 on lacks a point
    (["1.200", "12.500"], False),  # no score lacks a point
    (["950", "1e3", "1.200"], False),  # an exponent
    (["950", "1200"], False),  # no point
  ],
)
def test_the_log_warns_of_decimal_points_that_may_separate_thousands(
  tmp_path, caplog, cells, is_reported
):
  write_files(tmp_path, train_tsv=_rows(*(f"a\t{cell}" for cell in cells)))
  rows = _read(tmp_path, "train", is_regression=True)
  assert [row[2] for row in rows] == cells
  text = "train.tsv, line 3, column kind: '-1.200' is read as -1.2; if its "
  text += "point separates thousands, as in German, write -1200"
  assert (text in caplog.text) == bool(caplog.text) == is_reported


def test_a_decimal_point_in_json_lines_causes_no_warning_about_thousands(
  tmp_path, caplog
):
  rows = ['{"body": "a", "kind": 950}', '{"body": "a", "kind": 1.125}']
  write_files(tmp_path, train_jsonl="\n".join(rows))
  assert len(_read(tmp_path, "train", is_regression=True)) == 2
  assert not caplog.text


SEVERAL = {"multi_label": True}
PRODIGY = "body\tkind\tanswer\na\tx\taccept\nb\ty\t{}\n"


@pytest.mark.parametrize(
  ("train", "flags", "message"),
  [
    (TRAIN, {"text_a_column": "text"}, "'text'; there are 'kind', 'body'"),
    (TRAIN, SEVERAL | {"is_regression": True}, "contradict each other"),
    (_rows("A\tx"), {}, r"train\.tsv: the only label is 'x'"),
    (_rows("A\tx", "B\t "), {}, "line 3, column kind is blank"),
    (_rows("A\t"), SEVERAL, "every kind is empty"),
    (TRAIN, {"label_column": "body"}, "=body is also the column of a text"),
  ],
)
def test_unusable_training_files_and_flags_are_refused(
  tmp_path, train, flags, message
):
  data = write_files(tmp_path / "data", train_tsv=train)
  with pytest.raises(ValueError, match=message):
    task_of(data, str(tmp_path / "out"), **flags)
  assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
  ("dev", "flags", "message"),
  [
    (_rows("a\tA"), {}, "line 2.* 'A' is not a label"),
    (_rows("a\t01"), {}, "line 2.* '01' is not a label .*labels are 1, a"),
    (_rows("a\t1", "", "\t1", "b\t "), {}, "line 5, .*: '' is not a label"),
    (_rows("a\t1|2"), SEVERAL, "line 2.*'2' is not a label"),
    (_rows('a\t["1"]'), {}, "line 2.* list: write a text, or give --multi"),
    (_rows('a\t{"cats": {}}'), {}, "line 2.* object or a list: write a text"),
  ],
)
def test_an_unknown_label_in_dev_is_reported(tmp_path, dev, flags, message):
  write_files(tmp_path, train_tsv=_rows("a\t1", "b\ta"), dev_tsv=dev)
  with pytest.raises(ValueError, match=rf"dev\.tsv, {message}"):
    _read(tmp_path, "dev", **flags)


def test_doubtful_labels_are_reported(tmp_path, caplog):
  rows = [f"text {number}\t{number / 8}" for number in range(20)]
  for train, flags, message in (
    (_rows("a\tx", "b\tx|y"), {}, "'x|y' is one label; multi_label makes"),
    (_rows("a\tx", "b\ty|z"), {}, None),
    (_rows("a\tx", "b\tx|y"), SEVERAL, None),
    (_rows("a\t1", "b\t0"), SEVERAL, "has a column for each label: put their"),
    (_rows("a\tx#y", "b\ty"), SEVERAL, "no text has several labels"),
    (_rows("a\t青、赤", "b\ty"), SEVERAL, "no text has several labels"),
    *(
      (_rows("a\tx", f"b\t{x}", "c\ty|z"), SEVERAL, f"labels: is {x!r} one")
      for x in ("x/y", "z + x", "x；y", "y x")
    ),
    *(
      (_rows(f"a\t{cell}", "b\tx", "c\tx|y"), SEVERAL, None)
      for cell in ("not x", "x+", "x++", "q/x", "#사랑!", "##")
    ),
    (PRODIGY.format("reject"), {}, "1 of 2 rows have 'answer' reject"),
    (PRODIGY.format("accept"), {}, None),
    (_rows("a\tx", "b\tNaN"), {}, "'NaN' is a label: is it a missing value?"),
    (_rows("a\tx|null", "b\ty"), SEVERAL, "'null' is a label: is it a miss"),
    *(
      (_rows("a\tx", f"b\t{cell}"), {}, f"{cell!r} is a label: is it a missing")
      for cell in "NA n/a #N/A None #NV #WERT! NaT #NAME? #DIV/0! "
      "#N/D #¡VALOR! #ЗНАЧ! #ÜBERLAUF! ### #GETTING_DATA (leer) na nil N.A. "
      "(null) [NULL] - -- – ?".split()
    ),
    (_rows("a\t+", "b\t-", "c\t0"), {}, None),
    (_rows("a\t.", "b\t?"), {}, None),
    (_rows("a\tx", "b\t\\N"), {}, r"'\\N' is a label: is it a missing value?"),
    (_rows("a\tx|#REF!", "b\tx"), SEVERAL, "'#REF!' is a label: is it a m"),
    *(
      (_rows("a\tx", f"b\t{x}"), {}, None)
      for x in "none #yes nat Na NIL".split()
    ),
    (_rows(*rows), {}, "20 labels in 20 rows: is kind the right --label_col"),
    (_rows(*rows[:19]), {}, None),  # too few rows for a judgement
    (_rows(*rows, *rows), {}, None),  # each label has two rows
  ):
    caplog.clear()
    write_files(tmp_path, train_tsv=train)
    task_of(str(tmp_path), str(tmp_path / "out"), **flags)
    assert message in caplog.text if message else not caplog.text


def test_blank_texts_are_read_and_reported(tmp_path, caplog):
  write_files(tmp_path, train_csv="body,b,kind\n,x,1\nb,\u200b,0\nc,y,1\n")
  rows = _read(tmp_path, "train", text_b_column="b")
  assert [row[0] for row in rows] == ["", "b", "c"]
  for line, name in ((2, "body"), (3, "b")):
    assert f"1 of 3 texts in '{name}' are blank (lines {line})" in caplog.text


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


def _record(folder, **flags):
  entry = {"program": "run_classifier", "flags": flags}
  (folder / "run.json").write_text(json.dumps([entry]))


def test_a_model_trained_with_pairs_of_texts_refuses_single_texts(tmp_path):
  _record(tmp_path, task_name="TSV", text_b_column="id")
  start = str(tmp_path / "model.ckpt-1")
  with pytest.raises(ValueError, match=r"ckpt-1 was trained with --text_b_col"):
    named_tasks.check_text_pairs(None, start)
  named_tasks.check_text_pairs("body", start)
  _record(tmp_path, task_name="MRPC")
  named_tasks.check_text_pairs("body", start)


def test_a_teacher_must_have_the_labels_of_the_student(tmp_path):
  path = str(tmp_path / "run.json")
  files = {"bert_config_file": path, "vocab_file": path}
  rte, check = named_tasks.find("RTE"), named_tasks.check_teacher
  _record(tmp_path, task_name="mrpc", **files)
  with pytest.raises(ValueError, match=r"labels, .* 0, 1 and entailment, not_"):
    check(str(tmp_path), rte)
  check(str(tmp_path), named_tasks.find("SST-2"))  # has the labels of MRPC
  _record(tmp_path, task_name="TSV", **files)  # predicts scores
  check(str(tmp_path), rte)
  (tmp_path / "labels.txt").write_text("entailment\nno\n")
  with pytest.raises(ValueError, match=r"order: entailment, no \(of"):
    check(str(tmp_path), rte)
