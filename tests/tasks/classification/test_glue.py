"""--task_name=GLUE runs a command for each task of GLUE."""

import zipfile
from pathlib import Path

import pytest
from absl import logging

from tasks.classification import glue, named_tasks
from tests import programs, shared
from tests.training import toy

FILES = """
  AX.tsv CoLA.tsv MNLI-m.tsv MNLI-mm.tsv MRPC.tsv QNLI.tsv QQP.tsv RTE.tsv
  SST-2.tsv STS-B.tsv WNLI.tsv
""".split()
METRICS = ("accuracy", "f1", "matthews_correlation", "spearman")


def _flags(folder, **changes):
  defaults = dict.fromkeys(("do_train", "do_eval", "do_predict"), True)
  defaults |= {x: str(folder / x[:-4]) for x in ("data_dir", "output_dir")}
  defaults["seed"] = 0
  return programs.arguments("run_classifier", **defaults | changes)


def _task_folders(folder, *names):
  (folder / "output").mkdir(exist_ok=True)
  for name in names:
    for split in named_tasks.find(name).splits.values():
      path = folder / "data" / name / split.file
      path.parent.mkdir(parents=True, exist_ok=True)
      path.touch()


@pytest.fixture(name="calls")
def _calls():
  return []


@pytest.fixture(name="run")
def _run(calls, monkeypatch):
  """Returns glue.run; a stand-in adds each task's flags to `calls`."""

  def rerun(settings, name, flags):
    values = dict(flag[2:].split("=") for flag in flags)
    assert values["task_name"] == name
    assert settings.command[-1] == "--seed=0" or not settings.do_train
    calls.append(values)
    folder = Path(values["output_dir"])
    folder.mkdir(parents=True, exist_ok=True)
    # Values tell their origin: 0.520 is the score of task 5 in METRICS[2].
    for more, suffix in enumerate(("", "_mismatched")):
      numbers = enumerate(METRICS)
      lines = [f"eval_{x} = 0.{len(calls)}{i}{more}\n" for i, x in numbers]
      (folder / f"eval_results{suffix}.txt").write_text("".join(lines))
    if settings.do_predict and values.get("do_predict") != "False":
      for split in named_tasks.find(name).splits.values():
        if split.submission:
          (folder / split.submission).write_text(split.submission)

  monkeypatch.setattr(glue.training_program, "rerun", rerun)
  return glue.run


def _tasks_of_table(folder):
  _, *rows, average = programs.table(folder / "output" / "glue.tsv")
  assert average[0] == "average"
  return [row[0] for row in rows]


def test_glue_tasks_run_and_are_averaged_as_in_the_paper(tmp_path, calls, run):
  names = ("MNLI", "QQP", "QNLI", "SST-2", "CoLA", "STS-B", "MRPC", "RTE")
  _task_folders(tmp_path, *names, "WNLI")
  run(_flags(tmp_path))
  assert [values["task_name"] for values in calls] == [*names, "WNLI"]
  folders = {x: f"{tmp_path}/{x[:-4]}/QQP" for x in ("data_dir", "output_dir")}
  assert calls[1] == {"task_name": "QQP"} | folders
  header, *rows = programs.table(tmp_path / "output" / "glue.tsv")
  *rows, average = rows
  assert header == ["task", "metric", "dev", "paper_base", "paper_large"]
  assert rows[0] == ["MNLI-m", "accuracy", "10.00", "84.60", "86.70"]
  assert [" ".join(row[:3]) for row in rows[1:-1]] == [
    "MNLI-mm accuracy 10.10",
    "QQP f1 21.00",
    "QNLI accuracy 30.00",
    "SST-2 accuracy 40.00",
    "CoLA matthews_correlation 52.00",
    "STS-B spearman 63.00",
    "MRPC f1 71.00",
    "RTE accuracy 80.00",
  ]
  assert rows[-1] == ["WNLI", "accuracy", "90.00", "", ""]
  # Table 1 of the paper averages nine results, too: both of MNLI, none of WNLI.
  assert average == ["average", "", "41.90", "79.60", "82.08"]
  with zipfile.ZipFile(tmp_path / "output" / "submission.zip") as archive:
    files = archive.namelist()
    assert sorted(files) == sorted(FILES)
    assert all(archive.read(name).decode() == name for name in files)


def test_only_the_chief_writes_the_table_and_the_submission(
  tmp_path, calls, run, monkeypatch
):
  _task_folders(tmp_path, "CoLA", "RTE")
  toy.set_worker(monkeypatch, 1)
  run(_flags(tmp_path))
  assert [values["task_name"] for values in calls] == ["CoLA", "RTE"]
  assert not [*(tmp_path / "output").glob("*.*")]


def test_a_repeated_command_runs_incomplete_tasks(tmp_path, calls, run, log):
  _task_folders(tmp_path, "MNLI", "RTE")
  flags = _flags(tmp_path)
  run(flags)
  assert len(calls) == 2
  shared.touch_checkpoint(tmp_path / "output/MNLI", "a.ckpt")
  assert not glue.parts(flags, logging.INFO)
  assert "MNLI is complete; to predict or export it again, leave" in log.text
  assert "RTE is complete; its model is gone; to train it again, r" in log.text
  # Without --do_train, a complete task is evaluated and predicted again.
  assert list(glue.parts(flags.replace(do_train=False))) == ["MNLI", "RTE"]
  _task_folders(tmp_path, "SST-2")
  assert list(glue.parts(flags)) == ["SST-2"]
  run(flags)
  assert _tasks_of_table(tmp_path) == ["MNLI-m", "MNLI-mm", "SST-2", "RTE"]


def test_a_task_that_was_only_evaluated_is_not_complete(tmp_path, run):
  _task_folders(tmp_path, "RTE")
  flags = _flags(tmp_path, do_predict=False)
  command = tmp_path / "output/command.flags"
  run(flags.replace(do_train=False))
  assert not command.exists()  # only a training writes it
  assert list(glue.parts(flags)) == ["RTE"]
  run(flags)
  command.unlink()
  run(flags)  # trains nothing
  assert not command.exists()
  run(flags.replace(do_train=False))
  assert _tasks_of_table(tmp_path) == ["RTE"]


def test_glue_tsv_has_the_tasks_that_ended_before_an_error(tmp_path, run):
  _task_folders(tmp_path, "CoLA", "RTE")
  (tmp_path / "output" / "RTE").write_text("a file, so the run fails")
  with pytest.raises(FileExistsError):
    run(_flags(tmp_path))
  assert _tasks_of_table(tmp_path) == ["CoLA"]


def test_the_flag_from_mnli_starts_three_tasks_from_the_model_of_mnli(
  tmp_path, calls, run
):
  _task_folders(tmp_path, "RTE", "SST-2", "MNLI", "MRPC", "STS-B")
  flags = {"from_mnli": True, "teacher": "big", "export_dir": "new"}
  run(_flags(tmp_path, **flags, do_predict=False))
  starts = {v["task_name"]: v.get("init_checkpoint") for v in calls}
  mnli = str(tmp_path / "output" / "MNLI")
  expected = dict.fromkeys(("RTE", "MRPC", "STS-B"), mnli)
  assert starts == {"MNLI": None, "SST-2": None} | expected
  assert calls[-1]["new_head"] == "True"
  assert calls[-1]["from_mnli"] == "False"  # this flag is for GLUE, not a task
  assert calls[-1]["teacher"] == "big/RTE"
  assert calls[-1]["export_dir"] == "new/RTE"


def test_a_dry_run_needs_no_model_of_mnli(tmp_path, calls, run):
  _task_folders(tmp_path, "RTE", "MNLI")
  run(_flags(tmp_path, from_mnli=True, dry_run=True))
  assert [values["task_name"] for values in calls] == ["MNLI", "RTE"]
  # The dry run of MNLI leaves no model from which RTE could start.
  assert not any("init_checkpoint" in values for values in calls)
  names = {path.name for path in (tmp_path / "output").glob("*.*")}
  assert names == {"command.flags"}  # no table, no submission


def test_a_task_without_a_test_file_is_not_predicted(tmp_path, calls, run, log):
  _task_folders(tmp_path, "RTE", "CoLA")
  (tmp_path / "data" / "CoLA" / "test.tsv").unlink()
  glue.parts(_flags(tmp_path))  # as check_flags does before a run
  run(_flags(tmp_path))
  assert log.text.count("not in ") == 1  # the list of the other tasks
  assert [values.get("do_predict") for values in calls] == ["False", None]
  with zipfile.ZipFile(tmp_path / "output" / "submission.zip") as archive:
    assert archive.namelist() == ["RTE.tsv"]
