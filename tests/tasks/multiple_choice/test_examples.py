"""Examples of multiple choice, from CSV or JSON files to records."""

import pytest
import tensorflow as tf

from data import features, records
from storage import tfrecord
from tasks.multiple_choice.examples import (
  ChoiceExample,
  ChoiceRecordBuilder,
  read_examples,
)

HEADER = (
  ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,"
  "ending0,ending1,ending2,ending3,label\n"
)
ROW = f"{HEADER}0,v,1,s,a,b,g,w,x,y"


def _write(tmp_path, content, name="x.csv"):
  path = tmp_path / name
  path.write_text(content)
  return str(path)


def test_the_layout_of_swag_is_read(tmp_path):
  row = '0,v,1,"A, b. He","A, b.",He,gold,"c, ""d""",e,f,g,2\n'
  [example] = read_examples(_write(tmp_path, HEADER + row))
  assert example == ChoiceExample("A, b.", "He", ('c, "d"', "e", "f", "g"), 2)
  path = _write(tmp_path, LINE.replace('"b"', '""'), "x.jsonl")
  assert read_examples(path) == [ChoiceExample("a", "", ("x", "y"), 1)]


@pytest.mark.parametrize("count", [2, 12])
def test_test_rows_may_have_any_number_of_endings_in_any_order(tmp_path, count):
  names = tuple(f"ending{i}" for i in range(count))
  header = f"sent1,sent2,{','.join(sorted(names))},label"
  row = ",".join(["a", "b", *map(str.upper, sorted(names)), "-1"])
  path = _write(tmp_path, f"{header}\n{row}\n")
  endings = tuple(map(str.upper, names))
  assert read_examples(path, False) == [ChoiceExample("a", "b", endings)]


LINE = (
  '{"sent1": "a", "sent2": "b", "ending0": "x", "ending1": "y", "label": 1}'
)


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("sent1,ending0,ending1,label\na,b,c,0\n", "no column 'sent2'; there are"),
    ("sent1,sent2,ending0\na,b,c\n", "no column 'ending1', 'label'"),
    (f"{ROW},z,4\n", "line 2: the label is '4', expected a number from 0 to 3"),
    (f"{ROW},z,x\n", "line 2: the label is 'x'"),
    (f'{LINE}\n{LINE[:-1]}, "ending2": "z"}}', "line 2: 3 endings, .* have 2"),
    (LINE.replace("ng1", "ng3"), "line 1 .*: no column 'ending1'"),
    (f'{LINE[:-1]}, "ending3": "z"}}', "line 1: ending2 is missing"),
    (LINE.replace("1}", "null}"), "line 1 .null counts .*no column 'label'"),
  ],
)
def test_errors_name_a_bad_row_or_a_missing_column(tmp_path, content, message):
  name = "x.jsonl" if content.startswith("{") else "x.csv"
  with pytest.raises(ValueError, match=message):
    read_examples(_write(tmp_path, content, name))


def test_the_table_of_a_spreadsheet_is_read(tmp_path, caplog):
  text = "label;sent1;sent2;ending0;ending1\n1.0;ä;;x;y\n 0;;b;;z\n"
  path = tmp_path / "x.csv"
  path.write_bytes(text.encode("cp1252"))
  assert read_examples(str(path), True, (None, "cp1252")) == [
    ChoiceExample("ä", "", ("x", "y"), 1),
    ChoiceExample("", "b", ("", "z"), 0),
  ]
  # No warning names sent2, which is often empty.
  assert "1 of 2 texts in 'ending0' are blank" in caplog.text
  assert "'sent2'" not in caplog.text


def test_every_choice_becomes_a_pair_of_texts(tokenizer, tmp_path):
  build = ChoiceRecordBuilder(tokenizer, 8)
  row, lengths = build(ChoiceExample("a b c", "b", ("d", "e d e e"), 1))
  tfrecord.save(str(tmp_path / "r"), features.multiple_choice(8, 2), [row])
  parse = records.parser(features.multiple_choice(8, 2))
  [batch] = tf.data.TFRecordDataset(str(tmp_path / "r")).batch(1).map(parse)
  batch = {name: value.numpy().tolist() for name, value in batch.items()}
  assert batch["input_ids"][0] == [
    [2, 5, 6, 7, 3, 6, 8, 3],  # [CLS] a b c [SEP] b d [SEP]
    [2, 5, 6, 7, 3, 6, 9, 3],  # [CLS] a b c [SEP] b e [SEP]: cut to fit
  ]
  assert lengths == [8, 11]
  assert batch["segment_ids"][0] == [[0] * 5 + [1] * 3] * 2
  assert batch["input_mask"][0] == [[1] * 8] * 2
  assert batch["label_ids"] == batch["is_real_example"] == [1]
  unknown, _ = build(ChoiceExample("a", "b", ("c", "d"), None))
  assert unknown["label_ids"] == [0]
