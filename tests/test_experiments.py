"""The study: a fair plan, and a driver that goes on."""

import json
import re

import pytest

from experiments import plan, results, run
from tests import programs

EVERY = list(plan.runs())


def _flags(name):
  command = next(each.command for each in EVERY if each.name == name)
  return set(command.split())


def test_no_name_is_twice_and_what_is_tuned_was_trained_before():
  names = [each.name for each in EVERY]
  assert len(set(names)) == len(names)
  for number, each in enumerate(EVERY):
    for start in re.findall("init_checkpoint={work}/([^ ]*)", each.command):
      assert start.partition("/model.ckpt")[0] in names[:number]


@pytest.mark.parametrize(
  ("first", "second", "difference"),
  [
    ("pretrain/base/1", "pretrain/base/2", {"--seed=1", "--seed=2"}),
    ("pretrain/base/1", "pretrain/no_nsp/1", {"--objective=mlm"}),
    (
      *("pretrain/base/2", "pretrain/left_to_right/2"),
      {"--objective=left_to_right"},
    ),
    (
      *("NER/none/1", "NER/base/1"),
      {"--init_checkpoint={work}/pretrain/base/1"},
    ),
    ("SQuAD/left_to_right/2", "SQuAD/bilstm/2", {"--add_bilstm"}),
    (
      *("SST-2.100/base/1", "SST-2.100/none/1"),
      {"--init_checkpoint={work}/pretrain/base/1"},
    ),
  ],
)
def test_systems_differ_in_what_their_table_is_about(first, second, difference):
  assert _flags(first) ^ _flags(second) == difference


def test_passages_keep_text_and_answers():
  text = "One is here. Two is there. Three is away."
  answers = [{"text": "there", "answer_start": 20}]
  answers += [{"text": "Three", "answer_start": 27}]
  first, second = {"answers": answers[:1]}, {"answers": answers[::-1]}
  paragraph = {"context": text, "qas": [first, second]}
  parts = run.passages(paragraph, length=20)
  assert [part["context"] for part in parts] == [
    "One is here. ",
    "Two is there. ",
    "Three is away.",
  ]
  moved = [{"text": "there", "answer_start": 7}]
  assert parts[1]["qas"] == [{"answers": moved}]
  moved = [{"text": "Three", "answer_start": 0}]
  assert parts[2]["qas"] == [{"answers": moved}]
  assert run.passages(paragraph, length=100) == [paragraph]


def _line(name, **values):
  return {
    "name": name,
    "results": values,
    "cpu_seconds": 90,
    "commit": "0123456789ab",
    "finished": "2026-11-21 10:00",
    "curve": [[1, 5.1], [2, 4.2]] if "pretrain" in name else [],
  }


def test_differences_are_compared_with_the_deviation_of_their_task():
  scores = {
    ("NER", "base"): [50.0, 54.0],
    ("NER", "none"): [40.0, 40.0],
    ("NER.embeddings", "base"): [50.0],
    ("SQuAD", "base"): [9.0],
  }
  # Variances of 8 and 0, pooled 4; two standard errors of two means of two.
  effect = results.compare(scores, ("NER", "base"), ("NER", "none"))
  assert effect == (12.0, 4.0)
  assert results.verdict(effect, 1.0) == "as the paper"
  assert results.verdict(effect, None) == "as the paper"
  assert results.verdict(effect, -1.0) == "the other way"
  pair = ("NER", "base"), ("NER.embeddings", "base")
  effect = results.compare(scores, *pair)
  assert effect == (2.0, pytest.approx(2 * (4 * 1.5) ** 0.5))
  assert results.verdict(effect, 4.5) == "not seen at this size"
  assert results.verdict((1.0, float("inf")), None) == "too few seeds"
  pair = ("SQuAD", "base"), ("SQuAD", "none")
  assert results.compare(scores, *pair) is None


def test_tables_have_means_and_what_stands_around_them_stays(tmp_path):
  lines = [
    _line("SST-2/base/1", eval_accuracy=0.7),
    _line("SST-2/base/2", eval_accuracy=0.8),
    _line("SST-2/none/1", eval_accuracy=0.5),
    _line(
      "pretrain/base/1",
      masked_lm_loss=4.5,
      masked_lm_accuracy=0.25,
      global_step=8.0,
    ),
  ]
  results.write(lines, str(tmp_path))
  path = tmp_path / "results.md"
  text = path.read_text()
  row = "| SST-2 | 75.0 (2) | 50.0 (1) | +25.0 ± 17.3 | - | as the paper |"
  assert row in text
  assert "\nNot run: SQuAD, NER, QNLI, MRPC, MNLI.\n" in text
  assert "| base | 1 | 4.50 | 25.0 % | - | 1.5 |" in text
  path.write_text(f"In words.\n{text}\nAfter it.\n")
  results.write(lines[1:], str(tmp_path))
  text = path.read_text()
  assert text.startswith("In words.\n")
  assert "3 runs" in text
  assert text.count(results.BEGIN) == 1
  assert text.endswith("After it.\n")
  assert (tmp_path / "results" / "study.png").exists()


@pytest.fixture(name="given", scope="module")
def _given(tmp_path_factory):
  """Fourteen short texts and a task."""
  folder = tmp_path_factory.mktemp("experiments")
  for number in range(14):
    sentence = "She went to the sea and he came from the hills. " * 4
    (folder / f"{number:02}.txt").write_text(f"{sentence}\n\n" * 3)
  (folder / "SST-2").mkdir()
  rows = "sentence\tlabel\n" + "the sea\t1\nthe hills\t0\n" * 80
  for split in ("train", "dev"):
    (folder / "SST-2" / f"{split}.tsv").write_text(rows)
  return folder


def _run(folder, only):
  done = programs.python(
    [
      *("-m", "experiments.run", f"--text={folder}/*.txt", "--num_steps=4"),
      *(f"--glue_dir={folder}", f"--work_dir={folder}/work", f"--only={only}"),
    ]
  )
  assert done.returncode == 0, done.stderr
  return run.read(folder / "work" / "results.jsonl")


@pytest.mark.slow
def test_the_driver_runs_notes_and_goes_on(given):
  first = _run(given, "pretrain/base/1")
  assert [line["name"] for line in first] == [
    *plan.PREPARATIONS,
    "pretrain/base/1",
  ]
  assert [step for step, _ in first[-1]["curve"]] == [1, 2, 3, 4]
  second = _run(given, "pretrain/base/1|SST-2/base/1")
  assert second[:-1] == first
  line = second[-1]
  assert line["name"] == "SST-2/base/1"
  assert line["command"].startswith("python run_classifier.py --task_name")
  assert "--data_dir=$GLUE/SST-2" in line["command"]
  assert "--init_checkpoint=$WORK/pretrain/base/1" in line["command"]
  assert str(given) not in json.dumps(second)
  assert 0 <= line["results"]["eval_accuracy"] <= 1
  assert not (given / "work" / "SST-2" / "base" / "1").exists()
