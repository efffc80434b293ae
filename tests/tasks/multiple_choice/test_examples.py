"""Tables with any number of endings."""

import pytest

from tasks.multiple_choice.examples import ChoiceExample, read_examples
from tests import shared

HEADER = (
  ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,"
  "ending0,ending1,ending2,ending3,label\n"
)
ROW = f"{HEADER}0,v,1,s,a,b,g,w,x,y"


def _write(tmp_path, content, name="x.csv"):
  path = tmp_path / name
  path.write_text(content)
  return str(path)


def test_the_layout_of_swag(tmp_path):
  row = '0,v,1,"A, b. He","A, b.",He,gold,"c, ""d""",e,f,g,2\n'
  assert read_examples(_write(tmp_path, HEADER + row)) == [
    ChoiceExample("A, b.", "He", ('c, "d"', "e", "f", "g"), 2)
  ]


@pytest.mark.parametrize("count", [2, 12])
def test_any_number_of_endings_in_any_order_and_no_label(tmp_path, count):
  names = tuple(f"ending{i}" for i in range(count))
  row = ",".join(["a", "b", *map(str.upper, sorted(names))])
  path = _write(tmp_path, f"sent1,sent2,{','.join(sorted(names))}\n{row}\n")
  endings = tuple(map(str.upper, names))
  assert read_examples(path) == [ChoiceExample("a", "b", endings)]


START = '{"sent1": "a", "sent2": "b", "ending0": "x", "ending1": "y"'


def test_json_lines(tmp_path):
  line = f'{START}, "label": 1}}'.replace('"b"', '""')
  path = _write(tmp_path, line, "x.jsonl")
  assert read_examples(path) == [ChoiceExample("a", "", ("x", "y"), 1)]


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("", "x.csv is empty"),
    (HEADER, "x.csv has no rows"),
    ("sent1,ending0,ending1\na,b,c\n", "no column 'sent2'; there are 'sent1'"),
    ("sent1,sent2,ending0\na,b,c\n", "no column 'ending1'"),
    (f"{ROW},z,4\n", "line 2: the label is '4', expected a number from 0 to 3"),
    (f"{ROW},z,\n", "line 2: the label is ''"),
    (f"{ROW},1\n", "line 2: 11 columns, expected 12"),
    (f'{HEADER}0,v,1,s,a,"b,g,w\n', "row that begins on line 2 is no CSV"),
  ],
)
def test_errors_name_the_row(tmp_path, content, message):
  with pytest.raises(ValueError, match=message):
    read_examples(_write(tmp_path, content))


def test_the_table_of_a_spreadsheet(tmp_path, caplog):
  text = "label;sent1;sent2;ending0;ending1\n1.0;ä;;x;y\n 0;;b;;z\n"
  path = tmp_path / "x.csv"
  path.write_bytes(text.encode("cp1252"))
  assert read_examples(str(path), True, (None, "cp1252")) == [
    ChoiceExample("ä", "", ("x", "y"), 1),
    ChoiceExample("", "b", ("", "z"), 0),
  ]
  # sent2 is often empty.
  assert [
    record.getMessage()
    for record in caplog.records
    if record.levelname == "WARNING"
  ] == [
    f"{path}: 1 of 2 texts in {name} are blank (lines 3); they count as well"
    for name in ("'sent1'", "'ending0'")
  ]


def test_rows_with_another_number_of_endings(tmp_path):
  path = _write(tmp_path, f'{START}}}\n{START}, "ending2": "z"}}\n', "x.jsonl")
  with pytest.raises(ValueError, match=r"line 2: 3 endings, .* before have 2"):
    read_examples(path)


@pytest.mark.parametrize(
  ("name", "content"),
  [
    ("x.csv", "sent1,sent2,ending0,ending1,ending3\na,b,x,y,z\n"),
    ("x.csv", "sent1,sent2,ending0,ending1,ending02\na,b,x,y,z\n"),
    ("x.jsonl", f'{START}, "ending2": null, "ending3": "z"}}\n'),
  ],
)
def test_no_ending_is_left_out_silently(tmp_path, name, content):
  path = _write(tmp_path, content, name)
  with pytest.raises(ValueError, match=r"line [12]: .* ending0, ending1, endi"):
    read_examples(path)


@pytest.mark.slow
@shared.on_datasets
@pytest.mark.parametrize(
  ("file", "size"),
  [
    ("codah/swag_layout/train.csv", 1665),
    ("cosmosqa/swag_layout/train.csv", 2220),
    ("swag_sample/sample.json", 10),
  ],
)
def test_reads_the_real_files(file, size):
  examples = read_examples(f"{shared.DATASETS}/{file}")
  assert len(examples) == size
  assert all(len(example.endings) == 4 for example in examples)
  assert {example.label for example in examples} <= {0, 1, 2, 3}
