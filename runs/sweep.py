"""Sweeps: trains several settings and seeds, and keeps the best model.

A sweep (appendix A.3 of the paper) has a trial for each combination of learning
rate, batch size, epochs and seed. Each trial runs the same command in a child
process, with a separate folder.
"""

import math
import os
import statistics
from typing import TypeVar

from absl import logging

from data import labels
from runs import model_files, training_program
from runs.task_settings import FineTuning
from storage import files
from training import checkpoint_files, processes, run_folder, run_json

T = TypeVar("T", bound=FineTuning)


def run_sweep(settings: T) -> T:
  """Trains each trial that has no row in sweep.tsv; warns of other flags.

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
  # Trials only train. The sweep evaluates, predicts and exports the best model.
  later = settings.given.intersection(settings.stages) - {"do_train"}
  for name, setting in settings.named_trials().items():
    folder = os.path.join(output_dir, name)
    if name in trials:
      text = "%s is complete; to train it anew, name another --output_dir"
      logging.info(text, name)
      model_files.warn_if_changed(settings.replace(**setting), folder)
      continue
    model_files.save_command(settings, first)
    if processes.is_chief() and labels.exist(output_dir):
      labels.save_if_missing(labels.load(output_dir), folder)
    flags = [f"--output_dir={folder}"]
    flags += [f"--{flag}={value}" for flag, value in setting.items()]
    flags += ["--num_seeds=1", "--ensemble=1", "--keep_best"]
    flags += [f"--no{flag}" for flag in sorted(later)]
    training_program.rerun(settings, name, flags)
    if processes.is_chief():
      best = run_folder.read_best(folder)
      trials[name] = {"run": name}
      trials[name] |= {key: setting[key] for key in ("learning_rate", "seed")}
      trials[name] |= {key: best[key] for key in ("step", "metric", "value")}
      table = [trials[name], *(trial.values() for trial in trials.values())]
      text = "".join("\t".join(map(str, row)) + "\n" for row in table)
      files.write_text(os.path.join(output_dir, model_files.SWEEP_TABLE), text)
  if processes.is_chief():
    _log_trials(trials.values())
    [folder] = model_files.best_trials(output_dir, 1)
    best = trials[os.path.basename(folder)]
    value = float(best["value"])
    logging.info("the best is %s: %s %.4f", best["run"], best["metric"], value)
    _copy_best(folder, output_dir, settings.ensemble)
  # Several workers need a seed even to evaluate.
  return settings.replace(
    several={}, do_train=False, keep_best=True, seed=first
  )


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
  """Copies a trial's results, and its entry of run.json with --ensemble."""
  for name in (labels.FILE_NAME, *labels.THRESHOLD_FILES):
    path = os.path.join(source, name)
    if files.exists(path):
      files.copy(path, os.path.join(target, name))
  best = os.path.join(source, checkpoint_files.BEST)
  copied = os.path.join(target, checkpoint_files.BEST)
  files.remove_folder(copied)  # an earlier sweep left it
  files.make_folder(copied)
  for name in files.list_folder(best):
    files.copy(os.path.join(best, name), os.path.join(copied, name))
  entry = run_json.read(source)[-1]
  entry["flags"]["ensemble"] = ensemble
  run_json.append(target, entry)
