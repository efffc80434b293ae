"""The tasks of GLUE: what is read from which column, and what is refused."""

import os
from pathlib import Path

import pytest

from tasks.classification import examples as classification_examples
from tasks.classification import named_tasks
from tasks.classification.examples import TextExample

# Files in the layout of each task; texts are our own.
FILES = {
  "CoLA": {
    "train.tsv": "src\t0\t*\tA cat the.\n",
    "dev.tsv": 'src\t1\t\t"A cat.\n',
    "test.tsv": "index\tsentence\n0\tA dog.\n",
  },
  "SST-2": {
    "train.tsv": "sentence\tlabel\ngood \t1\n",
    "dev.tsv": "sentence\tlabel\nbad \t0\n",
    "test.tsv": "index\tsentence\n0\tfair\n",
  },
  "MRPC": {
    "train.tsv": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    "1\t7\t8\tA\tB\n",
    "test.tsv": "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t7\t8\tA\tB\n",
  },
  "STS-B": {
    "train.tsv": "index\tsource1\tsentence1\tsentence2\tscore\n"
    "0\tnone\tA\tB\t3.800\n",
    "test.tsv": "index\tsource1\tsentence1\tsentence2\n0\tnone\tA\tB\n",
  },
  "QQP": {
    "dev.tsv": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    "5\t1\t2\tA?\tB?\t1\n6\t1\t2\tcut in\n two?\n7\t3\t4\tC?\tD?\t0\n",
    "test.tsv": "id\tquestion1\tquestion2\n0\tA?\tB?\n",
  },
  "MNLI": {
    "dev_matched.tsv": "index\tsentence1\tsentence2\tlabel1\tlabel2\tgold_label"
    "\n3\tA\tB\tneutral\tneutral\tentailment\n",
    "dev_mismatched.tsv": "index\tsentence1\tsentence2\tgold_label\n"
    "4\tA\tB\tneutral\n",
    "test_matched.tsv": "index\tsentence1\tsentence2\n5\tA\tB\n",
    "test_mismatched.tsv": "index\tsentence1\tsentence2\n6\tA\tB\n",
  },
  "QNLI": {
    "train.tsv": "index\tquestion\tsentence\tlabel\n0\tA?\tB\tnot_entailment\n",
  },
  "RTE": {
    "dev.tsv": "index\tsentence1\tsentence2\tlabel\n0\tA\tB\tentailment\n"
  },
  "WNLI": {"dev.tsv": "index\tsentence1\tsentence2\tlabel\n0\tA\tB\t1\n"},
  "AX": {"diagnostic.tsv": "index\tsentence1\tsentence2\n0\tA\tB\n"},
  "XNLI": {
    "multinli/multinli.train.zh.tsv": "premise\thypo\tlabel\n"
    "甲\t乙\tcontradictory\n丙\t丁\tneutral\n",
    "xnli.dev.tsv": "language\tgold_label\tsentence1\tsentence2\n"
    "fr\tneutral\tA\tB\nzh\tentailment\t甲\t乙\n",
    "xnli.test.tsv": "language\tgold_label\tsentence1\tsentence2\n"
    "zh\tneutral\t甲\t乙\n",
  },
}
EXPECTED = {
  ("CoLA", "train"): [TextExample("train-0", "A cat the.", None, "0")],
  ("CoLA", "dev"): [TextExample("dev-0", '"A cat.', None, "1")],
  ("CoLA", "test"): [TextExample("test-1", "A dog.")],
  ("SST-2", "train"): [TextExample("train-1", "good ", None, "1")],
  ("SST-2", "dev"): [TextExample("dev-1", "bad ", None, "0")],
  ("SST-2", "test"): [TextExample("test-1", "fair")],
  ("MRPC", "train"): [TextExample("train-1", "A", "B", "1")],
  ("MRPC", "test"): [TextExample("test-1", "A", "B")],
  ("STS-B", "train"): [TextExample("train-1", "A", "B", "3.800")],
  ("STS-B", "test"): [TextExample("test-1", "A", "B")],
  ("QQP", "dev"): [
    TextExample("dev-1", "A?", "B?", "1"),
    TextExample("dev-4", "C?", "D?", "0"),
  ],
  ("QQP", "test"): [TextExample("test-1", "A?", "B?")],
  ("MNLI", "dev"): [TextExample("dev_matched-3", "A", "B", "entailment")],
  ("MNLI", "dev_mismatched"): [
    TextExample("dev_mismatched-4", "A", "B", "neutral")
  ],
  ("MNLI", "test"): [TextExample("test-5", "A", "B")],
  ("MNLI", "test_mismatched"): [TextExample("test_mismatched-6", "A", "B")],
  ("QNLI", "train"): [TextExample("train-1", "A?", "B", "not_entailment")],
  ("RTE", "dev"): [TextExample("dev-1", "A", "B", "entailment")],
  ("WNLI", "dev"): [TextExample("dev-1", "A", "B", "1")],
  ("AX", "test"): [TextExample("test-1", "A", "B")],
  ("XNLI", "train"): [
    TextExample("train-1", "甲", "乙", "contradiction"),
    TextExample("train-2", "丙", "丁", "neutral"),
  ],
  ("XNLI", "dev"): [TextExample("dev-2", "甲", "乙", "entailment")],
  ("XNLI", "test"): [TextExample("test-1", "甲", "乙", "neutral")],
}


def _lay_out(folder, files):
  for name, content in files.items():
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
  return str(folder)


@pytest.mark.parametrize(("name", "split"), EXPECTED)
def test_reads_all_layouts(tmp_path, name, split):
  folder = _lay_out(tmp_path, FILES[name])
  task = named_tasks.find(name)
  assert (
    classification_examples.read_examples(task, folder, split)
    == EXPECTED[name, split]
  )


def test_every_task_is_read_here():
  assert set(FILES) == set(named_tasks.TASKS)


@pytest.mark.parametrize(
  ("written", "name"),
  [
    ("cola", "CoLA"),
    ("STSB", "STS-B"),
    ("sts-b", "STS-B"),
    ("SST2", "SST-2"),
    ("sst_2", "SST-2"),
    ("Mnli", "MNLI"),
    ("xnli", "XNLI"),
  ],
)
def test_names_in_any_spelling(written, name):
  assert named_tasks.find(written).name == name


def test_an_unknown_task_lists_the_known_ones():
  with pytest.raises(ValueError, match=r"unknown task 'gleu'; .*CoLA.*XNLI"):
    named_tasks.find("gleu")


def test_labels_are_in_the_originals_order():
  nli = ("contradiction", "entailment", "neutral")
  assert [named_tasks.find(name).labels for name in ("mnli", "xnli", "ax")] == [
    nli
  ] * 3
  assert (
    named_tasks.find("mrpc").labels
    == named_tasks.find("cola").labels
    == ("0", "1")
  )
  assert named_tasks.find("sts-b").is_regression


def test_xnli_in_another_language(tmp_path):
  folder = _lay_out(tmp_path, FILES["XNLI"])
  [example] = classification_examples.read_examples(
    named_tasks.xnli("fr"), folder, "dev"
  )
  assert example == TextExample("dev-1", "A", "B", "neutral")
  with pytest.raises(ValueError, match="no row with language de; there are fr"):
    classification_examples.read_examples(named_tasks.xnli("de"), folder, "dev")


def test_a_missing_file_says_what_is_expected(tmp_path):
  with pytest.raises(
    FileNotFoundError,
    match=r"train\.tsv is missing; MNLI has .*dev_matched\.tsv \(dev\)",
  ):
    classification_examples.read_examples(
      named_tasks.find("mnli"), str(tmp_path), "train"
    )


def test_a_split_that_a_task_has_not():
  with pytest.raises(ValueError, match=r"AX has no train data; .*diagnostic"):
    classification_examples.read_examples(named_tasks.find("ax"), "", "train")


@pytest.mark.parametrize(
  ("name", "file", "content", "message"),
  [
    ("RTE", "dev.tsv", "", "is empty"),
    (
      "RTE",
      "dev.tsv",
      "index\tsentence1\n0\tA\n",
      "no column 'sentence2', 'lab",
    ),
    (
      "RTE",
      "dev.tsv",
      "index\tsentence1\tsentence2\tlabel\n0\tA\tB\tneutral\n",
      "line 2, column label: 'neutral' is no label of RTE; its labels are ent",
    ),
    (
      "RTE",
      "dev.tsv",
      "index\tsentence1\tsentence2\tlabel\n0\tA\tentailment\n",
      "line 2: 3 columns, expected 4",
    ),
    ("CoLA", "dev.tsv", "src\t0\t*\n", "line 1: 3 columns, expected 4"),
    (
      "STS-B",
      "dev.tsv",
      "sentence1\tsentence2\tscore\nA\tB\t2.5\nA\tB\tnan\n",
      "line 3, column score: 'nan' is not a number",
    ),
    (
      "STS-B",
      "dev.tsv",
      "sentence1\tsentence2\tscore\nA\tB\tfour\n",
      "line 2, column score: 'four' is not a number",
    ),
  ],
)
def test_what_does_not_fit_is_named(tmp_path, name, file, content, message):
  folder = _lay_out(tmp_path, {file: content})
  with pytest.raises(ValueError, match=message) as error:
    classification_examples.read_examples(named_tasks.find(name), folder, "dev")
  assert os.path.join(folder, file) in str(error.value)


def test_blank_lines_are_skipped_and_counted(tmp_path):
  folder = _lay_out(
    tmp_path, {"dev.tsv": "\na\t1\t\tOne.\n\r\nb\t0\t*\tTwo.\n\n"}
  )
  assert classification_examples.read_examples(
    named_tasks.find("cola"), folder, "dev"
  ) == [
    TextExample("dev-1", "One.", None, "1"),
    TextExample("dev-3", "Two.", None, "0"),
  ]


@pytest.mark.slow
@pytest.mark.skipif(
  "BERT_DATASETS" not in os.environ, reason="BERT_DATASETS names no folder"
)
@pytest.mark.parametrize(
  ("name", "folder", "sizes"),
  [
    ("CoLA", "CoLA", {"train": 8551, "dev": 1043, "test": 1063}),
    ("MRPC", "MRPC", {"train": 3668, "dev": 408, "test": 1725}),
    ("RTE", "RTE", {"train": 2490, "dev": 277, "test": 3000}),
    ("WNLI", "WNLI", {"train": 635, "dev": 71, "test": 146}),
    ("STS-B", "STS-B", {"train": 5749, "dev": 1500, "test": 1379}),
    ("SST-2", "SST-2", {"train": 67349, "dev": 872, "test": 1821}),
    ("QNLI", "QNLI", {"train": 8999, "dev": 5463, "test": 5463}),
    ("MNLI", "MNLI", {"train": 8999, "dev": 500}),
    ("QQP", "QQP", {"train": 8999, "dev": 500}),
    ("AX", "diagnostic", {"test": 1104}),
  ],
)
def test_reads_the_real_files(name, folder, sizes):
  folder = str(Path(os.environ["BERT_DATASETS"], "glue_data", folder))
  for split, size in sizes.items():
    examples = classification_examples.read_examples(
      named_tasks.find(name), folder, split
    )
    assert len(examples) == size
    assert all(example.text_a for example in examples)


def test_no_row_is_left_out_of_a_test_file(tmp_path):
  folder = _lay_out(tmp_path, {"test.tsv": FILES["QQP"]["dev.tsv"]})
  with pytest.raises(ValueError, match="line 3: 4 columns, expected 6"):
    classification_examples.read_examples(
      named_tasks.find("qqp"), folder, "test"
    )
