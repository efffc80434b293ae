"""Start of a program that trains: stages, dry run, lock, trials of a sweep."""

import fcntl
import glob
import math
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from tempfile import TemporaryDirectory
from typing import TypeVar

from absl import logging

from cli import program
from cli.settings import AS_GIVEN
from data import labels
from runs import model_files
from runs.settings import Training
from runs.task_settings import FineTuning
from storage import UserError, files, processes
from training import checkpoint_files

_COLUMNS = (
  "run learning_rate train_batch_size num_train_epochs seed step metric value "
  "examples"
).split()

T = TypeVar("T", bound=Training)
F = TypeVar("F", bound=FineTuning)


def run(
  kind: type[T], check: Callable[[T], None], main: Callable[[T], None]
) -> None:
  """Runs a training program: like program.run, with dry run and folder lock.

  Raises ValueError if the user has set none of the program's `stages`.
  """

  def start(settings):
    stages = {name: settings[name] for name in settings.stages}
    if not any(stages.values()):
      *others, last = [f"--{name}" for name in stages]
      names = ", ".join(others)
      raise UserError(f"At least one of {names} and {last} must be True.")
    check(settings)  # before a dry run changes the folders
    with dry_run(settings) as settings, locked(settings.output_dir):
      main(settings)
      metrics = os.path.join(settings.output_dir, checkpoint_files.METRICS)
      if files.exists(metrics):
        from training import report  # noqa: PLC0415, imports TensorFlow

        report.draw_metrics(settings.output_dir)

  program.run(kind, start)


def rerun(settings: Training, name: str, flags: Iterable[str]) -> None:
  """Runs this command again with more flags; ChildProcessError if it fails."""
  logging.info("%s begins", name)
  if status := processes.run_child([sys.executable, *settings.command, *flags]):
    raise ChildProcessError(
      f"{name} ended with status {status}, see above; the same command "
      "resumes, also without the values of this trial"
    )


@contextmanager
def locked(folder: str) -> Iterator[None]:
  """Context in which the chief worker's run is the only one in a local folder.

  Removes incomplete checkpoints that a killed run left there. After an error,
  removes the lock file, and a folder that is new and empty. Raises ValueError
  if another process holds the lock.
  """
  checkpoint_files.check_name(folder)
  if files.is_remote(folder) or not processes.is_chief():
    yield
    return
  is_new = not os.path.exists(folder)
  os.makedirs(folder, exist_ok=True)
  path = os.path.join(folder, checkpoint_files.LOCK_FILE)
  with open(path, "w") as file:
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      raise UserError(
        f"another run uses --output_dir={folder}: wait until it ends, or name "
        "another folder"
      ) from None
    except OSError as error:
      text = "%s cannot be locked (%s): start no other run"
      logging.warning(text, folder, error.strerror)
    for parent in (folder, os.path.join(folder, checkpoint_files.BEST)):
      pattern = f"{glob.escape(parent)}/{checkpoint_files.UNFINISHED}*"
      for left in glob.glob(pattern):
        os.remove(left)
    try:
      yield
    except Exception:
      with suppress(OSError):  # the folder is not empty
        os.remove(path)
        if is_new:
          os.rmdir(folder)
      raise


@contextmanager
def dry_run(settings: T) -> Iterator[T]:
  """Context that yields the settings to run with, which --dry_run changes.

  A dry run passes all stages of the command, but leaves no outputs. With
  --do_train it trains two steps. Without --do_train it loads the model in
  --output_dir, if any. Models and batches have full size, to test memory.
  """
  if not settings.dry_run:
    yield settings
    return
  own = checkpoint_files.choose_checkpoint(settings.output_dir)
  start = None if settings.do_train else own
  logging.info("dry run: all files go to a temporary folder")
  known = settings.flags.values()
  short = {f.name: f.dry_run for f in known if f.dry_run is not AS_GIVEN}
  if isinstance(settings, FineTuning) and settings.is_sweep:
    seed = 1 if settings.seed is None else settings.seed
    short |= {"keep_best": True, "seed": seed}  # like a trial of the sweep
  has_others = processes.has_others()
  with TemporaryDirectory() as folder:
    if has_others:  # all workers need the same folder
      folder = os.path.join(settings.output_dir, "dry_run")
      if processes.is_chief():
        files.remove_folder(folder)  # a killed dry run left it
    if labels.exist(settings.output_dir):
      labels.save(labels.load(settings.output_dir), folder)
    # The log would say "saved", and name files that will be gone.
    handler = logging.get_absl_handler().python_handler
    handler.addFilter(
      lambda line: line.levelname != "INFO" or folder not in line.getMessage()
    )
    try:
      yield settings.replace(
        several={},  # test the first setting of a sweep
        output_dir=folder,
        init_checkpoint=start or settings.init_checkpoint,
        export_dir=os.path.join(folder, "export"),
        **short,
      )
    finally:
      if has_others and processes.is_chief():
        files.remove_folder(folder)
  logging.info("dry run: all stages work, nothing was saved")


# --- Sweep -----------------------------------------------------------------


def run_sweep(settings: F, examples: str = "") -> F:
  """Trains each trial that has no row in sweep.tsv.

  A sweep (appendix A.3 of the paper) has a trial for each combination of
  learning rate, batch size, epochs and seed. Each trial runs the same command
  in a child process, with a separate folder. Warns if a trial in sweep.tsv has
  other flags, or another fingerprint of the `examples`.

  Copies the best trial's checkpoint to the folder `best`. Only the chief worker
  reads the trials' results and writes files. Call this function before the
  process uses a device: the trials need the devices. Returns settings that
  evaluate, predict and export the best model without training again. Raises
  ChildProcessError if a trial fails.
  """
  output_dir = settings.output_dir
  first = 1 if settings.seed is None else settings.seed
  rows = model_files.read_table(output_dir)
  trials: dict[str, dict] = {row["run"]: row for row in rows}
  if trials:  # other trials take hours
    model_files.best_trials(output_dir, min(settings.ensemble, len(trials)))
  for name, setting in settings.named_trials().items():
    values = {key: str(value) for key, value in setting.items()}
    for run, row in trials.items():  # a trial of a sweep of fewer flags
      name = run if values.items() <= row.items() else name
    folder = os.path.join(output_dir, name)
    if name in trials:
      remedy = "to train it anew, name another --output_dir"
      logging.info("%s is complete; %s", name, remedy)
      if trials[name].get("examples", "") not in ("", examples):
        logging.warning("%s was trained with other examples; %s", name, remedy)
      model_files.warn_if_changed(settings.replace(**setting), folder)
      continue
    model_files.save_command(settings, first)
    _run_trial(settings, name, folder, setting)
    if processes.is_chief():
      trials[name] = {"run": name, "examples": examples} | values
      trials[name] |= checkpoint_files.read_best(folder)
      table = [[row.get(c, "") for c in _COLUMNS] for row in trials.values()]
      text = "".join("\t".join(map(str, x)) + "\n" for x in (_COLUMNS, *table))
      files.write_text(os.path.join(output_dir, model_files.SWEEP_TABLE), text)
      # Ensembles have other trials now.
      for number, file in product(
        range(2, len(trials)), labels.THRESHOLD_FILES
      ):
        path = settings.replace(ensemble=number).threshold_file(file)
        if files.exists(path):
          files.remove(path)
  if processes.is_chief():
    _log_trials(trials.values())
    [folder] = model_files.best_trials(output_dir, 1)
    best = trials[os.path.basename(folder)]
    value = float(best["value"])
    logging.info("the best is %s: %s %.4f", best["run"], best["metric"], value)
    if files.exists(f"{folder}/{checkpoint_files.BEST}"):
      _copy_best(folder, output_dir, settings.ensemble)
  # Several workers need a seed even to evaluate.
  return settings.replace(
    several={}, do_train=False, keep_best=True, seed=first
  )


def _run_trial(settings, name, folder, setting):
  """Trains a trial in its folder, with the labels of the sweep, if any."""
  if labels.exist(settings.output_dir):  # each worker needs the file now
    labels.save(labels.load(settings.output_dir), folder)
  flags = [f"--output_dir={folder}"]
  flags += [f"--{flag}={value}" for flag, value in setting.items()]
  flags += ["--num_seeds=1", "--ensemble=1", "--keep_best"]
  # Trials only train. The sweep evaluates, predicts and exports the best model.
  later = settings.given.intersection(settings.stages) - {"do_train"}
  flags += [f"--no{flag}" for flag in sorted(later)]
  rerun(settings, name, flags)


def _log_trials(trials):
  by_setting = {}
  for trial in trials:
    value = float(trial["value"])
    logging.info("  %s: %s %.4f", trial["run"], trial["metric"], value)
    setting, _, _ = trial["run"].rpartition("_seed_")
    by_setting.setdefault(setting, []).append(value)
  for setting, values in by_setting.items():
    if len(values) > 1 and all(map(math.isfinite, values)):
      mean, spread = statistics.mean(values), statistics.stdev(values)
      numbers = f"{mean:.4f} ± {spread:.4f}, {len(values)} seeds"
      logging.info("  %s: %s", setting, numbers)


def _copy_best(source, target, ensemble):
  """Copies a trial's results, and its entry of run.json with --ensemble.

  Does not replace thresholds that an earlier start of the sweep copied.
  """
  read = checkpoint_files.read_best
  is_copied = read(source) == read(target)
  for name in (labels.FILE_NAME, *labels.THRESHOLD_FILES):
    path = os.path.join(source, name)
    if files.exists(path) and not is_copied:
      files.copy(path, os.path.join(target, name))
  best = os.path.join(source, checkpoint_files.BEST)
  copied = os.path.join(target, checkpoint_files.BEST)
  files.remove_folder(copied)  # an earlier sweep left it
  files.make_folder(copied)
  for name in files.list_folder(best):
    files.copy(os.path.join(best, name), os.path.join(copied, name))
  entry = checkpoint_files.read_runs(source)[-1]
  entry["flags"]["ensemble"] = ensemble
  checkpoint_files.append_run(target, entry)
