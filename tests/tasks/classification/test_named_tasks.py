"""The named tasks, such as MRPC and XNLI, read the published files."""

import pytest

from tasks.classification import examples, named_tasks
from tasks.classification.examples import TextExample
from tests.tasks.classification.test_custom_task import task_of

PARSES = "sentence1_binary_parse sentence2_binary_parse sentence1_parse "
PARSES += "sentence2_parse sentence1 sentence2"
COLUMNS = {
  "pair": "index sentence1 sentence2",
  "sts": "index genre filename year old_index source1 source2 sentence1 "
  "sentence2",
  "mnli": f"index promptID pairID genre {PARSES}",
  "xnli": f"language gold_label {PARSES} promptID",
}
# Task, split and file | columns, if any | a row | label, label id and guid. A
# blank in columns and rows is a tab, * is an empty cell. Other files of CoLA,
# MRPC, MNLI and XNLI are in tests/parity.
ROWS = """
CoLA train train.tsv || gj04 0 * one | 0 0 train-0
SST-2 train train.tsv | sentence label | one 1 | 1 1 train-1
SST-2 dev dev.tsv | sentence label | one 0 | 0 0 dev-1
SST-2 test test.tsv | index sentence | 9 one | - 0 test-1
STS-B train train.tsv | {sts} score | 9 g f y 8 a b one two 5.000 | 5.000 5 train-1
STS-B dev dev.tsv | {sts} score | 9 g f y 8 a b one two 2.5 | 2.5 2.5 dev-1
STS-B test test.tsv | {sts} | 9 g f y 8 a b one two | - 0 test-1
QQP train train.tsv | id qid1 qid2 question1 question2 is_duplicate | 9 8 7 one two 1 | 1 1 train-1
QQP dev dev.tsv | id qid1 qid2 question1 question2 is_duplicate | 9 8 7 one two 0 | 0 0 dev-1
QQP test test.tsv | id question1 question2 | 9 one two | - 0 test-1
MNLI train train.tsv | {mnli} label1 gold_label | 9 p q g . . . . one two entailment neutral | neutral 2 train-9
MNLI dev_mismatched dev_mismatched.tsv | {mnli} label1 gold_label | 9 p q g . . . . one two neutral contradiction | contradiction 0 dev_mismatched-9
MNLI test test_matched.tsv | {mnli} | 9 p q g . . . . one two | - 0 test-9
MNLI test_mismatched test_mismatched.tsv | {mnli} | 9 p q g . . . . one two | - 0 test_mismatched-9
MNLI test_ax ../diagnostic/diagnostic.tsv | {pair} | 9 one two | - 0 test_ax-1
AX test diagnostic.tsv | {pair} | 9 one two | - 0 test-1
QNLI train train.tsv | index question sentence label | 9 one two entailment | entailment 0 train-1
QNLI dev dev.tsv | index question sentence label | 9 one two not_entailment | not_entailment 1 dev-1
QNLI test test.tsv | index question sentence | 9 one two | - 0 test-1
RTE train train.tsv | {pair} label | 9 one two entailment | entailment 0 train-1
RTE dev dev.tsv | {pair} label | 9 one two not_entailment | not_entailment 1 dev-1
RTE test test.tsv | {pair} | 9 one two | - 0 test-1
WNLI train train.tsv | {pair} label | 9 one two 1 | 1 1 train-1
WNLI dev dev.tsv | {pair} label | 9 one two 0 | 0 0 dev-1
WNLI test test.tsv | {pair} | 9 one two | - 0 test-1
XNLI test xnli.test.tsv | {xnli} | zh entailment . . . . one two 7 | entailment 1 test-1
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize("line", ROWS, ids=lambda line: line.split(" |")[0])
def test_a_row_in_the_published_layout_is_read(tokenizer, tmp_path, line):
  names, columns, row, expected = line.format(**COLUMNS).split("|")
  name, split, file = names.split()
  label, label_id, guid = expected.split()
  path = tmp_path / "data" / file
  path.parent.mkdir(parents=True)
  (tmp_path / "data").mkdir(exist_ok=True)
  lines = ["\t".join(line.split()) for line in (columns, row) if line]
  path.write_text("\n".join(lines).replace("*", ""))
  task = named_tasks.find(name)
  [example] = examples.read_examples(task, str(tmp_path / "data"), split)
  text_b, label = "two" if "two" in row else None, label.strip("-") or None
  assert example == TextExample(guid, "one", text_b, label)
  assert task.has_pairs == bool(text_b)
  build = examples.TextRecordBuilder(tokenizer, 8, task.labels)
  assert build(example)[0]["label_ids"] == [float(label_id)]


def test_a_short_row_of_qqp_is_skipped_in_train_but_refused_in_test(tmp_path):
  columns = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
  for split in ("train", "test"):
    text = f"{columns}7\tone\n9\t8\t7\tone\ttwo\t1\n"
    (tmp_path / f"{split}.tsv").write_text(text)
  read, task = examples.read_examples, named_tasks.find("QQP")
  assert [x.guid for x in read(task, str(tmp_path), "train")] == ["train-2"]
  with pytest.raises(ValueError, match=r"v, line 2: 2 .* correct the line"):
    read(task, str(tmp_path), "test")  # each row needs a prediction


def test_only_rows_of_the_chosen_language_are_read_from_xnli(tmp_path):
  columns = COLUMNS["xnli"].replace(" ", "\t")
  row = "{0}\tneutral\t.\t.\t.\t.\t{0}\ttwo\t7"
  rows = map(row.format, ("fr", "zh", "fr"))
  (tmp_path / "xnli.dev.tsv").write_text("\n".join([columns, *rows]))
  for language, guids in (("zh", ["dev-2"]), ("fr", ["dev-1", "dev-3"])):
    flags = {"task_name": "xnli", "xnli_language": language}
    task = task_of(None, "nowhere", **flags)
    result = examples.read_examples(task, str(tmp_path), "dev")
    rows = [(x.guid, x.text_a) for x in result]
    assert rows == [(guid, language) for guid in guids]
    assert task.splits["train"].file.endswith(f"train.{language}.tsv")
  with pytest.raises(ValueError, match="no row with language sw"):
    examples.read_examples(named_tasks.xnli("sw"), str(tmp_path), "dev")
