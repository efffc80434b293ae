"""Fine-tunes one encoder twice, with our programs and with PyTorch's.

The same weights, data and hyper-parameters, once by the commands that a user of
this repository types and once by benchmarks/fine_tune_torch.py, the plain
Hugging Face way, so that the scores stand side by side. PyTorch's side is run
with its own AdamW and with Adam as BERT's authors had it and our programs have
it, without the correction of bias: updates are then three to 6.5 times as large
in the first hundred steps, at the same rate, and twice after three hundred.

  python -m benchmarks.fine_tune --datasets=datasets --work_dir=work \
    --bert_dir=bert --hf_dir=hugging_face_folder --peer_python=torch/bin/python

--bert_dir is what convert_checkpoint.py makes of --hf_dir, with its vocab.txt.
Results go to results.jsonl in --work_dir, line by line, and what is there is
not run again; what was killed is. They are printed as tables, of scores and of
times, with --table without running any.
Which library is faster, nothing else may be running for, and torch gets what
makes it fastest:

  ... --only='MRPC,SQuAD 1.1 trimmed' --epochs=1 --seeds=7 --dtype=bfloat16 \
    --group_by_length --side=ours --side=torch \
    --preload=libtcmalloc_minimal.so.4

Several may run at once on cores of their own: taskset -c 1 python ...
--side=torch
"""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from absl import app, flags

from benchmarks import fine_tune_table, published
from benchmarks.fine_tune_table import OURS, SAME_ADAM, SIDES, Done
from benchmarks.fine_tune_tasks import TASKS, Task, cut_data
from data.tasks import squad
from evaluation import squad_scores
from evaluation.squad import Predictions

FLAGS = flags.FLAGS
ROOT = Path(__file__).parents[1]

flags.DEFINE_string("work_dir", None, "For data, logs, results.", required=True)
flags.DEFINE_string("datasets", None, "Folder of the tasks' files.")
flags.DEFINE_string("bert_dir", None, "Encoder in the original's format.")
flags.DEFINE_string("hf_dir", None, "The same encoder for transformers.")
flags.DEFINE_string("peer_python", None, "Python that has torch.")
flags.DEFINE_list("only", [], "Names of tasks; default: all.")
flags.DEFINE_integer("seeds", None, "Seeds a task; default: the table's.", 1)
flags.DEFINE_integer("epochs", None, "Of all tasks; default: the table's.", 1)
flags.DEFINE_float("learning_rate", None, "Of all; default: the table's.")
flags.DEFINE_integer("batch_size", 16, "Of all tasks.", 1)
flags.DEFINE_enum("dtype", "float32", ["float32", "bfloat16"], "Of products.")
flags.DEFINE_bool("group_by_length", False, "On both sides.")
flags.DEFINE_string("preload", None, "An allocator's library for torch.")
flags.DEFINE_multi_enum("side", list(SIDES), list(SIDES), "Which to run.")
flags.DEFINE_bool("table", False, "Print tables and run nothing.")


@dataclasses.dataclass(frozen=True)
class Run:
  """One training: a task on one of the sides, with a seed."""

  task: Task
  side: str
  seed: int

  @property
  def key(self) -> dict[str, str | float]:
    """What makes it the same run as another one."""
    return {
      "task": self.task.name,
      "side": self.side,
      "seed": self.seed,
      "learning_rate": self.task.learning_rate,
      "batch_size": FLAGS.batch_size,
      "epochs": self.task.epochs,
      "length": self.task.length,
      "dtype": FLAGS.dtype,
      "group_by_length": FLAGS.group_by_length,
    }

  @property
  def folder(self) -> Path:
    """Where its files go."""
    name = f"{self.task.name}-{self.side}-{self.seed}".replace(" ", "-")
    return Path(FLAGS.work_dir, "runs", name).absolute()

  @property
  def command(self) -> list[str]:
    """What is executed."""
    task = self.task
    train, dev = map(_find, (task.train, task.dev))
    shared = [
      f"--max_seq_length={task.length}",
      f"--learning_rate={task.learning_rate}",
      f"--seed={self.seed}",
      f"--dtype={FLAGS.dtype}",
      f"--group_by_length={FLAGS.group_by_length}",
    ]
    if self.side != OURS:
      return [
        FLAGS.peer_python,
        *("-m", "benchmarks.fine_tune_torch"),
        *shared,
        f"--task={task.peer}",
        f"--train={train}",
        f"--dev={dev}",
        f"--model={FLAGS.hf_dir}",
        f"--batch_size={FLAGS.batch_size}",
        f"--epochs={task.epochs}",
        f"--optimizer={'bert' if self.side == SAME_ADAM else 'adamw'}",
        f"--output={self.folder}/scores.json",
      ]
    places = {"train": train, "dev": dev, "folder": train.parent}
    return [
      sys.executable,
      *(part.format(**places) for part in task.program),
      *shared,
      f"--vocab_file={FLAGS.bert_dir}/vocab.txt",
      f"--bert_config_file={FLAGS.bert_dir}/bert_config.json",
      f"--init_checkpoint={FLAGS.bert_dir}/bert_model.ckpt",
      f"--train_batch_size={FLAGS.batch_size}",
      f"--num_train_epochs={task.epochs}",
      f"--output_dir={self.folder}",
    ]

  def execute(self) -> bool:
    """Runs it and notes what came of it; False if it failed."""
    shutil.rmtree(self.folder, ignore_errors=True)
    self.folder.mkdir(parents=True)
    say(f"{self.folder.name}: started")
    cores = len(os.sched_getaffinity(0))
    environment = os.environ | {"OMP_NUM_THREADS": str(cores)}
    if FLAGS.preload and self.side != OURS:
      environment["LD_PRELOAD"] = FLAGS.preload
    begin = time.perf_counter()
    with open(self.folder / "log.txt", "w") as log:
      process = subprocess.Popen(
        self.command,
        cwd=ROOT,
        env=environment,
        stdout=log,
        stderr=log,
      )
      _, status, usage = os.wait4(process.pid, 0)
      process.returncode = os.waitstatus_to_exitcode(status)
    # Of the clock, and of the processor, which others may be using, too.
    times = {
      "seconds": time.perf_counter() - begin,
      "cpu_seconds": usage.ru_utime + usage.ru_stime,
    }
    try:
      subprocess.CompletedProcess(
        self.command, process.returncode
      ).check_returncode()
      result = published.origin() | self.key | times | self.outcome()
    except (subprocess.CalledProcessError, OSError, LookupError) as error:
      say(f"{self.folder.name}: {error!r}, see {self.folder}/log.txt")
      return False
    with open(results_file(), "a") as file:
      file.write(json.dumps(result) + "\n")
    for path in self.folder.iterdir():
      if path.name.startswith("model.ckpt") or path.suffix == ".tf_record":
        path.unlink()
    say(f"{self.folder.name}: {result['scores']}, {times['seconds']:.0f} s")
    return True

  def outcome(self) -> dict:
    """Reads what the run wrote: scores in percent and, of torch, sizes."""
    sizes = {}
    if self.side != OURS:
      found = json.loads((self.folder / "scores.json").read_text())
      sizes = {name: found[name] for name in ("train", "dev")}
      scores = found["scores"]
      if self.task.is_squad:
        scores = self._squad_scores(scores)
    elif self.task.is_squad:
      scores = json.loads((self.folder / "squad_scores.json").read_text())
    else:
      lines = (self.folder / "eval_results.txt").read_text().splitlines()
      values = dict(line.split(" = ") for line in lines)
      scores = {name: values[f"eval_{name}"] for name in self.task.metrics}
    unit = 1 if self.task.is_squad else 100
    scores = {name: unit * float(scores[name]) for name in self.task.metrics}
    return sizes | {"scores": scores}

  def _squad_scores(self, answers):
    articles = squad.articles(str(_find(self.task.dev)))
    predictions = Predictions(answers)
    return squad_scores.score(articles, predictions, self.task.peer == "squad2")


def _find(file: str) -> Path:
  """A task's file, cut by this program or as it is in --datasets."""
  own = Path(FLAGS.work_dir, "data", file)
  return (own if own.exists() else Path(FLAGS.datasets, file)).absolute()


def say(text: str) -> None:
  """Prints a line with the time of day."""
  print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def results_file() -> Path:
  """Where the results of all runs are, one a line."""
  return Path(FLAGS.work_dir, "results.jsonl")


def results() -> list[dict]:
  """What was run so far."""
  if not results_file().exists():
    return []
  return [json.loads(line) for line in results_file().read_text().splitlines()]


def runs() -> Iterator[Run]:
  """All that is wanted: a seed of every task first, then the next seed."""
  unknown = set(FLAGS.only) - {task.name for task in TASKS}
  if unknown:
    raise ValueError(f"unknown tasks: {', '.join(sorted(unknown))}")
  tasks = [
    dataclasses.replace(
      task,
      epochs=FLAGS.epochs or task.epochs,
      learning_rate=FLAGS.learning_rate or task.learning_rate,
    )
    for task in TASKS
    if not FLAGS.only or task.name in FLAGS.only
  ]
  seeds = {task: FLAGS.seeds or task.seeds for task in tasks}
  for seed in range(1, max(seeds.values()) + 1):
    for task in tasks:
      if seed <= seeds[task]:
        sides = (side for side in FLAGS.side if task.peer or side == OURS)
        yield from (Run(task, side, seed) for side in sides)


def _done(run):
  """Its results: one, or none if it is still to run."""
  return [row for row in results() if run.key.items() <= row.items()]


def execute(wanted: list[Run]) -> bool:
  """Executes what was not done before; False if anything failed."""
  missing = [run for run in wanted if not _done(run)]
  failures = sum(not run.execute() for run in missing)  # on after one
  return not failures


def main(_):
  wanted = list(runs())
  is_well = True
  if not FLAGS.table:
    cut_data(Path(FLAGS.datasets), Path(FLAGS.work_dir, "data"))
    is_well = execute(wanted)
  done = [Done(run.task, run.side, _done(run)) for run in wanted]
  print(fine_tune_table.table(done))
  fine_tune_table.TIMES.report(fine_tune_table.pairs(done))
  return 0 if is_well else 1


if __name__ == "__main__":
  app.run(main)
