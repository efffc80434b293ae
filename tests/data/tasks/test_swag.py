"""Multiple choice: tables of any number of endings, and their records."""

import os
from pathlib import Path

import pytest

from data import features, records, tfrecord
from data.tasks import swag
from data.tasks.swag import Example
from data.tokenization import FullTokenizer

HEADER = (
  ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,"
  "ending0,ending1,ending2,ending3,label\n"
)


def _write(tmp_path, content, name="x.csv"):
  path = tmp_path / name
  path.write_text(content)
  return str(path)


def test_the_layout_of_swag(tmp_path):
  path = _write(
    tmp_path, HEADER + '0,v,1,"A, b. He","A, b.",He,gold,"c, ""d""",e,f,g,2\n'
  )
  assert swag.read(path) == [
    Example("A, b.", "He", ('c, "d"', "e", "f", "g"), 2)
  ]


@pytest.mark.parametrize("count", [2, 5])
def test_any_number_of_endings_and_no_label(tmp_path, count):
  columns = ",".join(f"ending{i}" for i in range(count))
  path = _write(tmp_path, f"sent1,sent2,{columns}\na,b{',x' * count}\n")
  assert swag.read(path) == [Example("a", "b", ("x",) * count)]


def test_json_lines(tmp_path):
  line = (
    '{"sent1": "a", "sent2": "", "ending0": "x", "ending1": "y", "label": 1}'
  )
  path = _write(tmp_path, line, "x.jsonl")
  assert swag.read(path) == [Example("a", "", ("x", "y"), 1)]


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("", "x.csv is empty"),
    (HEADER, "x.csv has no rows"),
    ("sent1,ending0,ending1\na,b,c\n", "no column 'sent2'; there are 'sent1'"),
    ("sent1,sent2,ending0\na,b,c\n", "no column 'ending1'"),
    (
      HEADER + "0,v,1,s,a,b,g,w,x,y,z,4\n",
      "line 2: the label is '4', expected a number from 0 to 3",
    ),
    (HEADER + "0,v,1,s,a,b,g,w,x,y,z,\n", "line 2: the label is ''"),
    (HEADER + "0,v,1,s,a,b,g,w,x,y,1\n", "line 2: 11 columns, expected 12"),
    (
      HEADER + '0,v,1,s,a,"b,g,w,x,y,1\n',
      "row that begins on line 2 is no CSV",
    ),
  ],
)
def test_errors_name_the_row(tmp_path, content, message):
  with pytest.raises(ValueError, match=message):
    swag.read(_write(tmp_path, content))


def test_rows_with_another_number_of_endings(tmp_path):
  start = '{"sent1": "a", "sent2": "b", "ending0": "x", "ending1": "y"'
  path = _write(tmp_path, f'{start}}}\n{start}, "ending2": "z"}}\n', "x.jsonl")
  with pytest.raises(ValueError, match=r"line 2: 3 endings, .* before have 2"):
    swag.read(path)


@pytest.fixture(name="tokenizer")
def _tokenizer(tmp_path):
  words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcxy"]
  return FullTokenizer(_write(tmp_path, "\n".join(words), "vocab.txt"))


def test_each_choice_is_a_pair(tokenizer, tmp_path):
  build = swag.Builder(tokenizer, 8, 2)
  row = build(Example("a b c", "b", ("x", "y x y y"), 1))
  tfrecord.save(str(tmp_path / "r"), build.schema, [row, build(None)])
  parse = records.parser(features.multiple_choice(8, 2))
  [batch] = records.in_order([str(tmp_path / "r")]).batch(2).map(parse)
  batch = {name: value.numpy().tolist() for name, value in batch.items()}
  assert batch["input_ids"][0] == [
    [2, 4, 5, 6, 3, 5, 7, 3],  # [CLS] a b c [SEP] b x [SEP]
    [2, 4, 5, 6, 3, 5, 8, 3],  # [CLS] a b c [SEP] b y [SEP]: cut to fit
  ]
  assert batch["segment_ids"][0] == [[0] * 5 + [1] * 3] * 2
  assert batch["input_mask"][0] == [[1] * 8] * 2
  assert batch["label_ids"] == [1, 0]
  assert batch["is_real_example"] == [1, 0]
  assert batch["input_ids"][1] == batch["input_mask"][1] == [[0] * 8] * 2


def test_what_the_model_cannot_take(tokenizer):
  with pytest.raises(ValueError, match="max_seq_length 4 is too short"):
    swag.Builder(tokenizer, 4, 2)
  with pytest.raises(ValueError, match="3 endings, but the model takes 2"):
    swag.Builder(tokenizer, 8, 2)(Example("a", "b", ("x", "y", "x")))


@pytest.mark.skipif(
  "BERT_DATASETS" not in os.environ, reason="BERT_DATASETS names no folder"
)
@pytest.mark.parametrize(
  ("file", "size"),
  [
    ("codah/swag_layout/train.csv", 1665),
    ("codah/swag_layout/val.csv", 556),
    ("cosmosqa/swag_layout/train.csv", 2220),
    ("cosmosqa/swag_layout/val.csv", 308),
    ("swag_sample/sample.json", 10),
  ],
)
def test_reads_the_real_files(file, size):
  examples = swag.read(str(Path(os.environ["BERT_DATASETS"], file)))
  assert len(examples) == size
  assert all(len(example.endings) == 4 for example in examples)
  assert {example.label for example in examples} <= {0, 1, 2, 3}
