"""Several learning rates and seeds, and the best of them (A.3 of the paper).

Each combination is the same command, in a process and a folder of its own. A
sweep that was interrupted goes on when it is started again.
"""

import os
import statistics
import subprocess
import sys
from dataclasses import astuple, dataclass, fields

import tensorflow as tf
from absl import flags, logging

from training import best, run_record

TABLE = "sweep.tsv"


@dataclass(frozen=True)
class Result:
  """What came of one combination: a row of the table.

  Attributes:
    run: its folder in the sweep's.
    learning_rate: its peak.
    seed: of the run.
    step: updates that its best checkpoint has had.
    metric: the name of what decides; more is better.
    value: of the metric.
  """

  run: str
  learning_rate: float
  seed: int
  step: int
  metric: str
  value: float


def run_if_wanted(FLAGS: flags.FlagValues) -> None:
  """Trains with each of several rates and seeds that has no row in sweep.tsv.

  The best run's checkpoint goes to the folder `best`, and the program goes on
  with it as if it had been told not to train but to use the best. Nothing may
  have touched a device in this process, since others are to have it.

  Args:
    FLAGS: the values of training.flags.define_fine_tuning.

  Raises:
    ChildProcessError: a run failed.
  """
  rates = FLAGS.learning_rate
  several = isinstance(rates, tuple) or FLAGS.num_seeds > 1
  if not (FLAGS.do_train and several):
    return
  rates = rates if isinstance(rates, tuple) else (rates,)
  first = 1 if FLAGS.seed is None else FLAGS.seed
  results = _read(FLAGS.output_dir)
  for rate in rates:
    for seed in range(first, first + FLAGS.num_seeds):
      name = f"rate_{rate:g}_seed_{seed}"
      if name in results:
        logging.info("%s was done before", name)
        continue
      results[name] = _train(FLAGS, name, rate, seed)
      _write(FLAGS.output_dir, results)
  _tell(results)
  winner = max(results.values(), key=lambda result: result.value)
  logging.info("the best is %s: %s %.4f", *_said(winner))
  folder = os.path.join(FLAGS.output_dir, winner.run)
  _copy_best(folder, FLAGS.output_dir)
  run_record.adopt(FLAGS.output_dir, folder)
  FLAGS.do_train, FLAGS.keep_best = False, True


def _train(FLAGS, name, rate, seed) -> Result:
  """One run, in a process of its own: the same command, other flags."""
  folder = os.path.join(FLAGS.output_dir, name)
  # Later flags win. What comes after training is done once, with the best.
  after = [
    f"--no{flag}"
    for flag in ("do_eval", "do_predict", "do_export")
    if flag in FLAGS
  ]
  logging.info("%s begins", name)
  done = subprocess.run(
    [
      *(sys.executable, *sys.argv, f"--output_dir={folder}"),
      *(f"--learning_rate={rate}", f"--seed={seed}", "--num_seeds=1"),
      *("--keep_best", *after),
    ],
    check=False,
  )
  if done.returncode:
    raise ChildProcessError(
      f"{name} ended with status {done.returncode}, for the reason above; the "
      "same command goes on from there"
    )
  found = best.read(folder)
  return Result(
    name, rate, seed, found["step"], found["metric"], found["value"]
  )


def _read(output_dir) -> dict[str, Result]:
  path = os.path.join(output_dir, TABLE)
  if not tf.io.gfile.exists(path):
    return {}
  with tf.io.gfile.GFile(path) as file:
    _, *rows = file.read().splitlines()
  kinds = [field.type for field in fields(Result)]
  results = {}
  for row in rows:
    cells = zip(kinds, row.split("\t"), strict=True)
    result = Result(*(kind(cell) for kind, cell in cells))
    results[result.run] = result
  return results


def _write(output_dir, results):
  rows = [[field.name for field in fields(Result)]]
  rows += [map(str, astuple(result)) for result in results.values()]
  path = os.path.join(output_dir, TABLE)
  with tf.io.gfile.GFile(f"{path}.unfinished", "w") as file:
    file.write("".join("\t".join(row) + "\n" for row in rows))
  tf.io.gfile.rename(f"{path}.unfinished", path, overwrite=True)


def _tell(results):
  """Logs all results, and each rate's mean over its seeds."""
  by_rate = {}
  for result in results.values():
    logging.info("  %s: %s %.4f", *_said(result))
    by_rate.setdefault(result.learning_rate, []).append(result.value)
  for rate, values in by_rate.items():
    if len(values) > 1:
      mean, spread = statistics.mean(values), statistics.stdev(values)
      number = len(values)
      logging.info("  %g: %.4f ± %.4f, %d seeds", rate, mean, spread, number)


def _said(result):
  return result.run, result.metric, result.value


def _copy_best(source, target):
  source, target = best.folder(source), best.folder(target)
  if tf.io.gfile.exists(target):
    tf.io.gfile.rmtree(target)  # of an earlier, smaller sweep
  tf.io.gfile.makedirs(target)
  for name in tf.io.gfile.listdir(source):
    tf.io.gfile.copy(os.path.join(source, name), os.path.join(target, name))
