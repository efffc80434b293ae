r"""Kills a program at random moments and looks whether that can be seen.

Trains once undisturbed, and once more with `kill -9` at random moments, started
again each time by the same command:

  python -m benchmarks.kills --program=pretraining --kills=30 --work_dir=work

Kills come at any moment since the start of a process, at any moment of its
training, or as soon as a file is being written, a third of them each. After
each one every checkpoint that is listed must be readable, and the next start
must go on from the newest. In the end all variables must be those of the
undisturbed run, bit for bit, metrics.jsonl must have no step twice, and SQuAD's
predictions must be the same. Exit status 1 if something is not.
"""

import collections
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from absl import app, flags

from benchmarks import kills_data
from training import checkpoint, metrics
from training.checkpoints import Checkpoints

FLAGS = flags.FLAGS
ROOT = Path(__file__).parents[1]
MOMENTS = ("start", "training", "writing")
TRAINING = 2.0  # seconds of training, at most, before a kill
# What a file is called while it is being written.
_UNFINISHED = re.compile(r"unfinished|\.partial-|tempstate")

flags.DEFINE_enum(
  "program", "pretraining", ["pretraining", "squad"], "Which to kill."
)
flags.DEFINE_integer("kills", 30, "How many.", 1)
flags.DEFINE_string("work_dir", None, "A new folder.", required=True)
flags.DEFINE_integer("seed", 1, "Of data, training and moments.")


@dataclass
class Found:
  """What was seen.

  Attributes:
    counts: {what: how often}.
    faults: what should not have been.
  """

  counts: collections.Counter = field(default_factory=collections.Counter)
  faults: list[str] = field(default_factory=list)

  def expect(self, good: bool, fault: str) -> None:
    """Notes a fault unless all is well, and says so at once."""
    if not good:
      self.faults.append(fault)
      print(f"FAULT: {fault}", flush=True)


def main(_):
  work = Path(FLAGS.work_dir).absolute()
  work.mkdir(parents=True)
  command = _command(kills_data.write(work, FLAGS.program, FLAGS.seed))
  whole = work / "whole"
  start_up, in_all = _undisturbed(command, whole)
  print(f"undisturbed: {in_all:.0f} s, {start_up:.0f} of them to start up")
  rng, found, runs = random.Random(FLAGS.seed), Found(), 0
  while found.counts["kills"] < FLAGS.kills:
    runs += 1
    folder = work / f"killed-{runs}"
    _disturbed(command, folder, rng, start_up, found)
    _compare(whole, folder, found)
  print(_summary(found, runs))
  sys.exit(1 if found.faults else 0)


def _command(data):
  given = data | {
    "do_train": True,
    "train_batch_size": 8,
    "learning_rate": 1e-3,
    "save_checkpoints_steps": 4,
    "iterations_per_loop": 4,
    "keep_checkpoint_max": 3,
    "seed": FLAGS.seed,
  }
  if FLAGS.program == "squad":
    given |= {"do_predict": True, "num_train_epochs": 28.0}
  else:
    given |= {"num_train_steps": 1600, "num_warmup_steps": 40}
  program = ROOT / f"run_{FLAGS.program}.py"
  options = [f"--{name}={value}" for name, value in given.items()]
  return [sys.executable, str(program), *options]


def _start(command, folder):
  """A process that works in a folder, its log beside that."""
  with open(f"{folder}.log", "a") as log:
    return subprocess.Popen(
      [*command, f"--output_dir={folder}"], stderr=log, start_new_session=True
    )


def _undisturbed(command, folder):
  """Seconds to the first checkpoint, and in all."""
  begin = time.monotonic()
  process = _start(command, folder)
  _wait(process, lambda: _newest(folder) >= 0)
  start_up = time.monotonic() - begin
  if process.wait():
    sys.exit(f"the undisturbed run failed: see {folder}.log")
  return start_up, time.monotonic() - begin


def _wait(process, until):
  """Waits for something; False if the process ends before."""
  while not until():
    if process.poll() is not None:
      return False
    time.sleep(0.001)
  return True


def _newest(folder):
  """Step of the newest checkpoint file, -1 if there is none."""
  names = (path.stem for path in folder.glob("model.ckpt-*.index"))
  return max((int(name.rpartition("-")[2]) for name in names), default=-1)


def _unfinished(folder):
  paths = folder.iterdir() if folder.exists() else ()
  return [path.name for path in paths if _UNFINISHED.search(path.name)]


def _disturbed(command, folder, rng, start_up, found):
  """Runs a program to its end, killed on the way as often as is left."""
  before = None  # the newest checkpoint when the last process began
  while True:
    latest, log_size = _look(folder, before, found), _size(f"{folder}.log")
    before = latest
    process = _start(command, folder)
    left = FLAGS.kills - found.counts["kills"]
    killed = left > 0 and _kill(process, folder, rng, start_up, found)
    status = process.wait()
    with open(f"{folder}.log", "rb") as log:
      log.seek(log_size)
      told = log.read().decode(errors="replace")
    _check_start(told, latest, killed, found)
    if not killed:
      found.expect(status == 0, f"status {status}, see {folder}.log")
      return


def _kill(process, folder, rng, start_up, found):
  """Kills at a moment drawn at random; False if it has ended before."""
  moment, since = rng.choice(MOMENTS), _newest(folder)
  trains = moment == "training" or rng.random() < 0.6
  if moment != "start" and trains:
    # Training begins where there is a checkpoint more than before.
    _wait(process, lambda: _newest(folder) > since)
    time.sleep(rng.uniform(0.0, TRAINING))
  if moment == "start":
    time.sleep(rng.uniform(0.0, start_up))
  if moment == "writing":
    _wait(process, lambda: _unfinished(folder))
    time.sleep(rng.choice([0.0, rng.uniform(0.0, 0.01)]))
  if process.poll() is not None:
    return False
  os.killpg(process.pid, signal.SIGKILL)
  process.wait()
  found.counts["kills"] += 1
  found.counts["in training"] += _newest(folder) > since
  found.counts["while writing"] += bool(_unfinished(folder))
  step = _newest(folder)
  print(f"kill {found.counts['kills']}: {moment}, step {step}", flush=True)
  return True


def _size(path):
  return os.path.getsize(path) if os.path.exists(path) else 0


def _look(folder, before, found):
  """Reads all that a kill has left; returns the newest checkpoint's prefix."""
  listed = Checkpoints(str(folder)).listed()
  for prefix in listed:
    found.counts["checkpoints read"] += 1
    try:
      checkpoint.Reader(prefix).verify()
    except (checkpoint.Damaged, OSError) as error:
      found.expect(False, str(error))
  found.expect(bool(listed) or not before, f"{folder} lost its checkpoints")
  _check_metrics(folder, found)
  return listed[-1] if listed else None


def _check_metrics(folder, found):
  steps = [m["step"] for m in metrics.read(str(folder)) if "loss" in m]
  found.expect(steps == sorted(set(steps)), f"{folder}: a step twice: {steps}")
  return len(steps)


def _check_start(told, latest, killed, found):
  """Whether a process has gone on from the newest checkpoint."""
  gone_on = re.search(r"going on from (\S+)", told)
  if latest and (gone_on or not killed):
    good = gone_on and gone_on[1] == latest
    found.expect(good, f"did not go on from {latest}: {told[-2000:]}")
    found.counts["gone on"] += bool(good)
  found.expect("Traceback" not in told, told)
  # Ours; TensorFlow's own lines speak of errors where there is no GPU.
  found.expect(not re.search(r"^[\d:]{8} ERROR", told, re.MULTILINE), told)
  found.expect("cannot be read" not in told, told)


def _compare(whole, folder, found):
  """Whether two runs have ended the same."""
  one, other = checkpoint.read(str(whole)), checkpoint.read(str(folder))
  found.expect(one.shapes == other.shapes, f"{folder}: other variables")
  for name in one.shapes:
    found.expect(
      one[name].tobytes() == other[name].tobytes(), f"{folder}: {name} differs"
    )
  found.counts["tensors the same"] += len(one.shapes)
  found.counts["lines"] += _check_metrics(folder, found)
  found.expect(not _unfinished(folder), f"left: {_unfinished(folder)}")
  if FLAGS.program == "squad":
    answers = [(f / "predictions.json").read_bytes() for f in (whole, folder)]
    found.expect(answers[0] == answers[1], f"{folder}: other predictions")


def _summary(found, runs):
  count = found.counts
  return (
    f"{FLAGS.program}: {count['kills']} kills in {runs} run(s), "
    f"{count['in training']} in training, {count['while writing']} while a "
    f"file was written; {count['gone on']} restarts went on from the newest "
    f"checkpoint; {count['checkpoints read']} checkpoints read between kills; "
    f"{count['tensors the same']} tensors and {count['lines']} lines of "
    f"metrics.jsonl compared at the end; {len(found.faults)} faults"
  )


if __name__ == "__main__":
  app.run(main)
