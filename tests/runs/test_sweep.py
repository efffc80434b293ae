"""Sweeps: trials, the table sweep.tsv, and the best checkpoint."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from data import labels
from runs import checks, model_files, training_program
from storage import UserError, processes
from tests import programs
from tests.training import toy
from training import checkpoint_files

SCORES = {1e-5: 0.5, 3e-5: 0.8}  # by learning rate, less seed / 100


def _flags(tmp_path, **changes):
  flags = {"learning_rate": (1e-5, 3e-5), "num_seeds": 2}
  flags |= {"do_train": True, "do_predict": True, "output_dir": str(tmp_path)}
  given, command = ("do_train", "do_predict"), ("run_it.py", "--task_name=x")
  return programs.arguments("run_squad", given, command, **flags | changes)


@pytest.fixture(name="commands")
def _commands(monkeypatch):
  """Records the command of each trial, and writes the files of the trial."""
  commands = []

  def run(command):
    commands.append(command)
    values = dict(part[2:].split("=") for part in command if "=" in part)
    folder = Path(values["output_dir"]) / "best"
    folder.mkdir(parents=True)
    value = SCORES[float(values["learning_rate"])] - int(values["seed"]) / 100
    best = {"metric": "f1", "value": value, "step": 7, "evaluated": 9}
    (folder / "best.json").write_text(json.dumps(best))
    (folder / "model.ckpt-7.index").write_text(values["output_dir"])
    for name in ("thresholds.tsv", "null_score_diff_threshold.txt"):
      (folder.parent / name).write_text(values["output_dir"])
    start = json.dumps([{"flags": {}}, {"flags": {}} | values])
    (folder.parent / "run.json").write_text(start)
    return 0

  monkeypatch.setattr(processes, "run_child", run)
  return commands


@pytest.mark.parametrize(
  ("changes", "trials"),
  [
    ({"learning_rate": 1e-5, "num_seeds": 1}, []),
    ({"learning_rate": 1e-5}, ["1e-05_seed_1", "1e-05_seed_2"]),
    ({"num_seeds": 1, "seed": 4}, ["1e-05_seed_4", "3e-05_seed_4"]),
    ({"learning_rate": 1e-5, "seed": 0}, ["1e-05_seed_0", "1e-05_seed_1"]),
    ({"do_train": False}, []),
  ],
)
def test_two_values_or_seeds_make_a_sweep(tmp_path, commands, changes, trials):
  flags = _flags(tmp_path, **changes)
  assert flags.is_sweep == bool(trials)
  if trials:
    flags = training_program.run_sweep(flags)
    folders = [f"--output_dir={tmp_path}/rate_{name}" for name in trials]
    assert [command[3] for command in commands] == folders
    # The program continues with the best checkpoint and the first seed.
    result = (flags.do_train, flags.keep_best, flags.seed)
    assert result == (False, True, int(trials[0][-1]))


TRIAL = """
--learning_rate=1e-05 --train_batch_size=32 --num_train_epochs=3.0 --seed=2
--num_seeds=1 --ensemble=1 --keep_best --nodo_predict
"""


def test_a_sweep_copies_its_best_trial_to_output_dir(tmp_path, commands, log):
  # The second command adds the missing trials.
  training_program.run_sweep(_flags(tmp_path, learning_rate=1e-5))
  assert len(commands) == 2
  (tmp_path / "best/model.ckpt-3.index").touch()  # of an older sweep
  training_program.run_sweep(_flags(tmp_path))
  assert len(commands) == 4
  assert not (tmp_path / "best/model.ckpt-3.index").exists()
  python, *words = commands[1]
  folder = f"--output_dir={tmp_path}/rate_1e-05_seed_2"
  assert python == sys.executable
  assert words == ["run_it.py", "--task_name=x", folder, *TRIAL.split()]
  header, *rows = (tmp_path / "sweep.tsv").read_text().splitlines()
  assert header.split("\t") == training_program._COLUMNS
  assert rows[3:] == ["rate_3e-05_seed_2\t3e-05\t32\t3.0\t2\t7\tf1\t0.78\t"]
  winner = (tmp_path / "best" / "model.ckpt-7.index").read_text()
  assert winner.endswith("rate_3e-05_seed_1")
  for name in ("thresholds.tsv", "null_score_diff_threshold.txt"):
    assert (tmp_path / name).read_text() == winner
  # The seeds 1 and 2 score 0.79 and 0.78.
  assert "rate_3e-05: 0.7850 ± 0.0071, 2 seeds" in log.text
  assert "the best is rate_3e-05_seed_1: f1 0.7900" in log.text
  [_, start] = json.loads((tmp_path / "run.json").read_text())
  assert start["output_dir"].endswith("rate_3e-05_seed_1")
  command = tmp_path / "command.flags"
  command.unlink()
  (tmp_path / "thresholds.tsv").write_text("edited")
  training_program.run_sweep(_flags(tmp_path))
  assert (tmp_path / "thresholds.tsv").read_text() == "edited"
  assert "rate_1e-05_seed_1 is complete; to train it anew, name" in log.text
  assert not command.exists()  # because no trial was trained


def test_the_best_model_outlives_the_folder_of_its_trial(tmp_path, commands):
  training_program.run_sweep(_flags(tmp_path))
  for folder in tmp_path.glob("rate_*"):
    shutil.rmtree(folder)
  training_program.run_sweep(_flags(tmp_path, num_seeds=3))
  model = tmp_path / "best" / "model.ckpt-7.index"
  assert model.read_text().endswith("rate_3e-05_seed_1")
  (tmp_path / "best" / "best.json").unlink()
  number = len(commands)
  with pytest.raises(UserError, match="rate_3e-05_seed_1 has no checkpoint an"):
    training_program.run_sweep(_flags(tmp_path, num_seeds=4))
  assert model.exists()
  assert len(commands) == number  # no trial was trained before the message


def test_an_ensemble_without_a_trials_checkpoint_is_refused(tmp_path, commands):
  flags = _flags(tmp_path, ensemble=3)
  training_program.run_sweep(flags)
  shutil.rmtree(tmp_path / "rate_1e-05_seed_1")
  with pytest.raises(UserError, match=r"seed_1 has no .* from .*sweep\.tsv to"):
    checks.check_training(flags.replace(do_train=False))
  with pytest.raises(UserError, match="seed_1 has no checkpoint any more: res"):
    training_program.run_sweep(_flags(tmp_path, ensemble=3, num_seeds=3))
  checks.check_training(flags.replace(do_train=False, ensemble=2))
  table = tmp_path / "sweep.tsv"
  lines = table.read_text().splitlines(keepends=True)
  table.write_text("".join(x for x in lines if "1e-05_seed_1" not in x))
  training_program.run_sweep(flags)  # as the message says
  assert (tmp_path / "rate_1e-05_seed_1/best/best.json").exists()


def test_a_sweep_of_more_flags_does_not_repeat_a_trial(tmp_path, commands, log):
  training_program.run_sweep(_flags(tmp_path))
  batches = {"several": {"train_batch_size": (16, 32)}}  # it was 32
  files = ("thresholds_ensemble_2.tsv", "threshold_ensemble.tsv")
  for file in files:
    (tmp_path / file).touch()
  training_program.run_sweep(_flags(tmp_path, num_seeds=1).replace(**batches))
  assert "rate_1e-05_seed_1 is complete" in log.text
  names = [command[3].rpartition("/")[2] for command in commands[4:]]
  assert names == ["rate_1e-05_batch_16_seed_1"]
  # The best two trials may have changed.
  assert [(tmp_path / file).exists() for file in files] == [False, True]


def test_batch_sizes_and_epochs_are_swept(tmp_path, commands):
  several = {"train_batch_size": (16, 32), "num_train_epochs": (2.0, 3.0)}
  flags = _flags(tmp_path, learning_rate=3e-5, num_seeds=1, **several)
  checks.check_training(flags.replace(ensemble=4))  # 2 x 2 trials are enough
  result = training_program.run_sweep(flags)
  names = [command[3].rpartition("/")[2] for command in commands]
  parts = ("16_epochs_2", "16_epochs_3", "32_epochs_2", "32_epochs_3")
  assert names == [f"rate_3e-05_batch_{part}_seed_1" for part in parts]
  trial = "--learning_rate=3e-05 --train_batch_size=16 --num_train_epochs=3.0"
  assert commands[1][4:7] == trial.split()
  assert (result.train_batch_size, result.num_train_epochs) == (16, 2.0)


@pytest.mark.parametrize(
  ("known", "is_chief"), [(None, 1), ("cba", 1), ("cba", 0)]
)
def test_all_trials_have_the_same_order_of_labels(
  tmp_path, commands, monkeypatch, known, is_chief
):
  """The order comes from the output folder, or else from the first trial."""
  if not is_chief:
    toy.set_worker(monkeypatch, 1)
  run = processes.run_child

  def train(command):
    folder = command[3].removeprefix("--output_dir=")
    if not labels.exist(folder):
      labels.save("bca", folder)
    return run(command)

  monkeypatch.setattr(processes, "run_child", train)
  if known:
    labels.save(known, str(tmp_path))
  training_program.run_sweep(_flags(tmp_path))
  folders = [tmp_path, *tmp_path.glob("rate_*")]
  assert len(folders) == 5
  for folder in folders:
    assert labels.load(str(folder)) == tuple(known or "bca")


def test_a_warning_names_a_trial_with_changed_flags(tmp_path, commands, caplog):
  flags = _flags(tmp_path, num_train_epochs=3.0)
  training_program.run_sweep(flags)
  path = tmp_path / "rate_1e-05_seed_1" / "run.json"
  recorded = {"num_train_epochs": 2.0, "learning_rate": 1e-5, "num_seeds": 1}
  path.write_text(json.dumps([{"flags": recorded}]))
  training_program.run_sweep(flags)
  text = f"{path.parent} was trained with --num_train_epochs=2.0 (now 3.0); to"
  assert caplog.text.count(" was trained with") == caplog.text.count(text) == 1


def test_a_warning_names_a_trial_that_was_trained_with_other_examples(
  tmp_path, commands, log
):
  training_program.run_sweep(_flags(tmp_path, num_seeds=1))
  table = tmp_path / "sweep.tsv"
  old = [line.rpartition("\t")[0] for line in table.read_text().splitlines()]
  table.write_text("\n".join([*old, ""]))  # as written by older versions
  assert "other examples" not in log.text
  training_program.run_sweep(_flags(tmp_path), "ab")  # seed 2
  training_program.run_sweep(_flags(tmp_path), "cd")
  for name in ("rate_1e-05_seed_2", "rate_3e-05_seed_2"):
    assert f"{name} was trained with other examples; to train" in log.text
  assert log.text.count("other examples") == 2


def test_a_failed_trial_ends_the_sweep(tmp_path, commands, monkeypatch):
  train = processes.run_child
  statuses = [None, 1]  # the first trial is trained, the second fails
  monkeypatch.setattr(
    processes, "run_child", lambda command: statuses.pop(0) or train(command)
  )
  with pytest.raises(ChildProcessError, match="seed_2 ended with status 1"):
    training_program.run_sweep(_flags(tmp_path))
  [row] = model_files.read_table(str(tmp_path))
  assert row["run"] == "rate_1e-05_seed_1"


def test_only_the_chief_worker_writes_the_results_of_a_sweep(
  tmp_path, commands, monkeypatch
):
  toy.set_worker(monkeypatch, 1)
  flags = training_program.run_sweep(_flags(tmp_path))
  assert len(commands) == 4
  assert (flags.keep_best, flags.seed) == (True, 1)
  assert all(path.name.startswith("rate_") for path in tmp_path.iterdir())


def test_an_ensemble_takes_the_best_trials(tmp_path, commands):
  flags = _flags(tmp_path, ensemble=3)
  checks.check_training(flags)
  training_program.run_sweep(flags)
  folders = model_files.best_trials(str(tmp_path), 3)
  trials = ("3e-05_seed_1", "3e-05_seed_2", "1e-05_seed_1")
  assert folders == [f"{tmp_path}/rate_{trial}" for trial in trials]
  # A restore of the folder also builds the ensemble.
  [entry] = checkpoint_files.read_runs(str(tmp_path))
  assert entry["flags"]["ensemble"] == 3
  # Without a training, the four trials in sweep.tsv count.
  checks.check_training(_flags(tmp_path, do_train=False, ensemble=4))


def test_an_ensemble_of_more_models_than_trials_is_refused(tmp_path):
  same = {"learning_rate": (1e-5, 1e-5), "num_seeds": 1}  # one trial
  for flags, message in (
    ({"ensemble": 5}, "--ensemble=5 takes the best of a"),
    (same | {"ensemble": 2}, "--ensemble=2 .* trains 1: give more"),
    ({"do_train": False, "ensemble": 2}, r"more than the 0 tri.*sweep\.tsv"),
  ):
    with pytest.raises(ValueError, match=message):
      checks.check_training(_flags(tmp_path, **flags))


def test_trials_are_ranked_by_the_numeric_value_of_their_score(tmp_path):
  rows = [("a", 9.5), ("b", 10.25), ("c", -11), ("d", 8)]
  for name, _ in rows:
    (tmp_path / name / "best").mkdir(parents=True)
  text = "".join(f"{run}\t{value}\t7\n" for run, value in rows)
  (tmp_path / "sweep.tsv").write_text(f"run\tvalue\tstep\n{text}")
  best = model_files.best_trials(str(tmp_path), 2)
  assert best == [str(tmp_path / name) for name in "ba"]
  assert len(model_files.best_trials(str(tmp_path), 4)) == 4  # all
