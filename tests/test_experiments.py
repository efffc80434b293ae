"""The small experiments: a fair plan, and a driver that goes on."""

import json

import pytest

from experiments import plan, results
from tests import programs

EVERY = list(plan.experiments())


def test_no_name_is_twice_and_what_is_tuned_was_trained_before():
  names = [experiment.name for experiment in EVERY]
  assert len(set(names)) == len(names)
  for number, experiment in enumerate(EVERY):
    starts = experiment.flags.get("init_checkpoint", "").split(",")
    for start in filter(None, starts):
      name = start.removeprefix("{work}/").partition("/model.ckpt")[0]
      assert name in names[:number]


def test_pre_trainings_differ_in_what_their_table_is_about_only():
  trained = {e.name: e for e in EVERY if e.program == "run_pretraining"}
  base = trained["pretrain/base"].flags
  differing = {
    name: {
      k for k in base.keys() | e.flags.keys() if base.get(k) != e.flags.get(k)
    }
    for name, e in trained.items()
  }
  for name in ("no_nsp", "left_to_right", "right_to_left"):
    assert differing[f"pretrain/{name}"] == {"objective"}
  longer = differing[f"pretrain/{plan.long('base')}"]
  for name in ("left_to_right", "right_to_left"):
    changed = differing[f"pretrain/{plan.long(name)}"]
    assert changed == longer | {"objective"}
  for seed in plan.OTHER_STARTS:
    assert differing[f"pretrain/{plan.anew('base', seed)}"] == {"seed"}
    changed = differing[f"pretrain/{plan.anew('left_to_right', seed)}"]
    assert changed == {"objective", "seed"}
  assert differing["pretrain/gpt"] == {"objective", "special_tokens"}
  for size in plan.SIZES:
    assert not differing[f"pretrain/{size}"]
    assert trained[f"pretrain/{size}"].size == size
  for mix in plan.MIXES:
    changed = {"input_file", "mask_token_prob", "random_token_prob"}
    assert differing[f"pretrain/{mix}"] == changed


def _line(name, **values):
  return {
    "name": name,
    "results": values,
    "seconds": 90,
    "commit": "0123456789ab",
    "finished": "2026-11-21 10:00",
    "curve": [[1, 0.1], [2, 0.2]] if "pretrain" in name else [],
  }


def test_tables_have_means_and_what_stands_around_them_stays(tmp_path):
  lines = [
    _line("SST-2/base/1", eval_accuracy=0.7),
    _line("SST-2/base/2", eval_accuracy=0.8),
    _line("SST-2/base_seed_3/1", eval_accuracy=0.9),
    _line(
      "pretrain/base",
      masked_lm_loss=4.5,
      masked_lm_accuracy=0.25,
      global_step=8.0,
    ),
  ]
  results.write(lines, str(tmp_path), 8)
  path = tmp_path / "results.md"
  text = path.read_text()
  assert "| base | 75.0 ± 7.1 (2) | not run | not run | 92.7 / 88.4 |" in text
  assert "| base | 80.0 ± 14.1 (2) | not run | not run |\n" in text
  assert "| base | 8 | 4.500 | 25.0 |" in text
  assert "4 runs until 2026-11-21" in text
  path.write_text(f"{text}\nIn words.\n")
  results.write(lines[:2], str(tmp_path), 8)
  text = path.read_text()
  assert text.startswith("# Results")
  assert "2 runs" in text
  assert text.count(results.BEGIN) == 1
  assert text.endswith("In words.\n")


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
      *("-m", "experiments.run", f"--text={folder}/*.txt"),
      *(f"--glue_dir={folder}", f"--work_dir={folder}/work"),
      *(f"--docs_dir={folder}", "--num_steps=4", f"--only={only}"),
    ]
  )
  assert done.returncode == 0, done.stderr
  lines = (folder / "work" / "results.jsonl").read_text().splitlines()
  return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_the_driver_runs_notes_and_goes_on(given):
  first = _run(given, "pretrain/base$")
  names = [line["name"] for line in first]
  assert names[:2] == ["text/train", "text/held_out"]
  assert names[-1] == "pretrain/base"
  assert [step for step, _ in first[-1]["curve"]] == [1, 2, 3, 4]
  second = _run(given, "pretrain/base$|SST-2/base_1/1")
  assert second[:-1] == first
  assert second[-1]["name"] == "SST-2/base_1/1"
  assert "python run_classifier.py --" in second[-1]["command"]
  runs = (given / "results" / "runs.jsonl").read_text()
  assert "--output_dir=$WORK/SST-2/base_1/1" in runs
  assert "--data_dir=$GLUE/SST-2" in runs
  assert str(given) not in runs
  assert 0 <= second[-1]["results"]["eval_accuracy"] <= 1
  assert not (given / "work" / "SST-2" / "base_1" / "1").exists()
  assert "| base | not run" in (given / "results.md").read_text()
