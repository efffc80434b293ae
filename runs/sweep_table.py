"""sweep.tsv: a row for each trial of a sweep."""

import csv
import os

from storage import UserError, files, textfiles

NAME = "sweep.tsv"


def read(output_dir: str) -> list[dict[str, str]]:
  """Rows of a folder's sweep.tsv by column; none without that file."""
  path = os.path.join(output_dir, NAME)
  lines = textfiles.lines(path) if files.exists(path) else ()
  return list(csv.DictReader(lines, delimiter="\t"))


def best_trials(output_dir: str, number: int) -> list[str]:
  """Folders of a sweep's best trials, best first; ValueError if too few."""
  trials = read(output_dir)
  if len(trials) < number:
    raise UserError(
      f"--ensemble={number} is more than the {len(trials)} trials in "
      f"{output_dir}/{NAME}: train with more --learning_rate or --num_seeds"
    )
  trials.sort(key=lambda trial: -float(trial["value"]))
  return [os.path.join(output_dir, t["run"]) for t in trials[:number]]
