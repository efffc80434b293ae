"""Start of a program that trains: checks, dry run, lock of --output_dir."""

import fcntl
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import TextIO

from absl import logging

from cli import arguments, program, shared_flags
from cli.arguments import Arguments
from modeling.config import BertConfig
from storage import UserError, files
from training import processes, run_record

# Flags of what a program does, one after the other.
STAGES = ("do_train", "do_eval", "do_predict", "do_export")
LOCK_FILE = "run.lock"
# Files of locks, which last until they are closed; True if the folder is new.
_open_locks: list[tuple[TextIO, bool]] = []


def run(
  main: Callable[[Arguments], None], check_flags: Callable[[Arguments], None]
) -> None:
  """Runs a program as program.run; it has --dry_run and locks --output_dir.

  One of its flags of STAGES must be set.
  """

  def start(args):
    values = args.to_dict()
    stages = [name for name in STAGES if name in values]
    if not any(values[name] for name in stages):
      *others, last = (f"--{name}" for name in stages)
      raise UserError(
        f"At least one of {', '.join(others)} and {last} must be True."
      )
    check_flags(args)  # also those of a dry run, which has other folders
    with dry_run(args) as args:
      if processes.is_chief():
        lock_folder(args.output_dir)
      try:
        main(args)
        if files.exists(os.path.join(args.output_dir, run_record.METRICS)):
          from training import report  # noqa: PLC0415, imports TensorFlow

          report.draw_metrics(args.output_dir)
      except Exception:
        _remove_locks()
        raise

  program.run(start)


def rerun(args: Arguments, name: str, flags: Iterable[str]) -> None:
  """Runs this command again with more flags; ChildProcessError with `name`."""
  logging.info("%s begins", name)
  if status := processes.run_child([sys.executable, *args.command, *flags]):
    raise ChildProcessError(
      f"{name} ended with status {status}, see above; the same command resumes"
    )


def with_same_seed(args: Arguments) -> Arguments:
  """Gives all trainings that `rerun` starts one seed, 1 as in a sweep."""
  seed = 1 if args.seed is None else args.seed
  arguments.save_command(args, seed)
  command = (*args.command, f"--seed={seed}")
  return Arguments(args.set_flags, command, **args.to_dict())


# --- Flags -----------------------------------------------------------------


def is_sweep(args: Arguments) -> bool:
  """True if flags name several settings or seeds to train with."""
  several = any(isinstance(args[name], tuple) for name in arguments.SWEPT)
  return args.do_train and (several or args.num_seeds > 1)


def evaluates_while_training(args: Arguments) -> bool:
  """True if fine-tuning evaluates during training or at its end.

  So do all trials of a sweep, which keep their best.
  """
  keeps_best = is_sweep(args) or run_record.keeps_best(args.to_dict())
  return args.do_train and (bool(args.eval_steps) or keeps_best)


def splits_to_read(args: Arguments) -> list[str]:
  """Splits of the data that a run reads: train, dev, test."""
  is_read = {
    "train": args.do_train,
    "dev": args.do_eval or evaluates_while_training(args),
    "test": args.do_predict,
  }
  return [split for split in is_read if is_read[split]]


def file_flags(args: Arguments) -> list[str]:
  """Names of the flags for files that a run reads: train_file and so on."""
  return [f"{split}_file" for split in splits_to_read(args)]


def check_training(args: Arguments) -> None:
  """Checks the flags that all training programs have; else ValueError."""
  program.check_export(args)
  check_devices(args)
  if args.group_by_length and (shared_flags.on_tpu(args) or args.jit_compile):
    raise UserError(
      "--group_by_length makes batches of many lengths, and XLA compiles each "
      "of them: it goes neither with --jit_compile nor with a TPU"
    )
  steps = args.profile_steps
  is_span = isinstance(steps, tuple) and len(steps) == 2 and steps[0] < steps[1]
  if steps is not None and not is_span:
    raise UserError("--profile_steps: give two steps, as in 100,110")


def check_fine_tuning(args: Arguments) -> None:
  """Checks the flags that all programs of fine-tuning have; else ValueError."""
  if args.early_stopping_patience and not args.eval_steps:
    raise UserError(
      "--early_stopping_patience counts evaluations: say with --eval_steps "
      "after how many steps there is one"
    )
  check_ensemble(args)
  epochs = [s["num_train_epochs"] for s in arguments.settings_of_sweep(args)]
  if args.do_train and 0 in epochs:
    raise UserError("--num_train_epochs=0 trains nothing: drop --do_train")
  check_training(args)


def check_ensemble(args: Arguments) -> None:
  """Raises ValueError if there are fewer models than --ensemble says."""
  size = args.ensemble
  number = len(arguments.settings_of_sweep(args)) * args.num_seeds
  if size > 1 and not args.do_train:
    run_record.best_trials(args.output_dir, size)
  elif number < size:  # there is always one
    raise UserError(
      f"--ensemble={size} takes the best of a sweep, but this command trains "
      f"{number}: give more of --learning_rate or --num_seeds"
    )


def check_devices(args: Arguments) -> None:
  """Raises ValueError if device flags contradict each other or TF_CONFIG."""
  name = args.distribution_strategy
  if args.use_tpu and name not in (None, "tpu"):
    raise UserError(f"--use_tpu contradicts --distribution_strategy={name}")
  is_joint = name == "multi_worker_mirrored" or shared_flags.on_tpu(args)
  if processes.has_others() and not is_joint:
    raise UserError(
      "TF_CONFIG names several workers, but each would work alone: give "
      "--distribution_strategy=multi_worker_mirrored, or unset TF_CONFIG"
    )


def check_packing(
  args: Arguments, config: BertConfig, not_packed: Iterable[str] = ()
) -> None:
  """Raises ValueError if --pack_examples has a `packing_conflict`."""
  conflict = packing_conflict(args, config, not_packed)
  if args.pack_examples and conflict:
    raise UserError(f"--pack_examples does not go with {conflict}: drop one")


def packing_conflict(
  args: Arguments, config: BertConfig, not_packed: Iterable[str] = ()
) -> str | None:
  """First setting with which examples cannot share rows; None if all can.

  `not_packed` are names of such flags of the program.
  """
  values = args.to_dict()  # pre-training has no teacher and no windows
  settings = {
    "--add_bilstm": config.add_bilstm,
    "--gradient_accumulation_steps": args.gradient_accumulation_steps > 1,
    "--group_by_length": args.group_by_length,
    "--jit_compile": args.jit_compile,
    **{f"--{name}": args[name] for name in not_packed},
    "--teacher": values.get("teacher"),
    "--long_text=windows": values.get("long_text") == "windows",
    "a TPU": shared_flags.on_tpu(args),
    f"attention {config.attention!r}": config.attention != "bidirectional",
  }
  return next((name for name, is_set in settings.items() if is_set), None)


# --- Dry run ---------------------------------------------------------------

DRY_RUN_STEPS = 2
_DRY_RUN_EXAMPLES = 64  # of each file, in fine-tuning
# Flags of a dry run; not all programs have all of them.
_SHORT = {
  "num_train_steps": DRY_RUN_STEPS,
  "max_eval_steps": DRY_RUN_STEPS,
  "num_warmup_steps": 1,
  "stop_at_step": 0,
  "eval_steps": 0,
  "early_stopping_patience": 0,
  "num_seeds": 1,
  "ensemble": 1,
  "profile_steps": None,
}


@contextmanager
def dry_run(args: Arguments) -> Iterator[Arguments]:
  """Context with the arguments to run with, changed if --dry_run is set.

  A dry run has the stages of the command, but no outputs. It trains two steps,
  or takes the model in --output_dir. Models and batches have their full size,
  which tests memory.
  """
  if not args.dry_run:
    yield args
    return
  start = not args.do_train and run_record.choose_checkpoint(args.output_dir)
  logging.info("dry run: all files go to a temporary folder")
  with _dry_run_folder(args.output_dir) as folder:
    export_dir = os.path.join(folder, "export")
    _correct_log({export_dir: args.export_dir, folder: args.output_dir})
    changes = _SHORT | {
      "output_dir": folder,
      "init_checkpoint": start or args.init_checkpoint,
      "export_dir": export_dir,
    }
    values = args.to_dict()
    if "num_seeds" in values and is_sweep(args):  # as its trials
      changes["keep_best"] = True
    # Of a sweep the first setting.
    first = {k: v[0] for k, v in values.items() if isinstance(v, tuple)}
    own = {k: v for k, v in changes.items() if k in values}
    yield args.replace(**first | own)
  logging.info("dry run: all stages work, nothing was saved")


def max_examples(args: Arguments) -> int | None:
  """Number of examples to read from a file in a dry run; else None, for all."""
  return _DRY_RUN_EXAMPLES if args.dry_run else None


def _correct_log(names: Mapping[str, str | None]) -> None:
  """Corrects log lines about files that last no longer than this process.

  Warnings and errors name the command's folders. Other lines are left out: they
  say that such a file was saved.
  """

  def correct(record):
    record.msg, record.args = record.getMessage(), ()
    if record.levelname == "INFO":
      return not any(path in record.msg for path in names)
    for path, name in names.items():
      record.msg = record.msg.replace(path, name or path)
    return True

  logging.get_absl_handler().python_handler.addFilter(correct)


@contextmanager
def _dry_run_folder(output_dir):
  """Context with a folder for a time; workers share one in --output_dir."""
  if not processes.has_others():
    with TemporaryDirectory() as folder:
      yield folder
    return
  folder = os.path.join(output_dir, "dry_run")
  try:
    yield folder
  finally:
    if processes.is_chief():
      files.remove_folder(folder)


# --- Lock ------------------------------------------------------------------


def lock_folder(folder: str) -> None:
  """Locks a local folder until this process ends; remote ones are not locked.

  Removes incomplete files of a run that was killed there. Raises
  NotADirectoryError, or ValueError if another process has locked it.
  """
  run_record.check_name(folder)
  if files.is_remote(folder):
    return
  if os.path.exists(folder) and not os.path.isdir(folder):
    raise NotADirectoryError(f"--output_dir={folder} is a file: name a folder")
  is_new = not os.path.exists(folder)
  os.makedirs(folder, exist_ok=True)
  file = open(os.path.join(folder, LOCK_FILE), "a+")  # noqa: SIM115
  try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    file.seek(0)
    number = file.read().strip() or "unknown"
    file.close()
    raise UserError(
      f"another run, process {number}, uses --output_dir={folder}: wait "
      "until it ends, or name another folder"
    ) from None
  except OSError as error:
    logging.warning(
      "%s cannot be locked (%s): start no other run", folder, error.strerror
    )
  file.truncate(0)
  file.write(f"{os.getpid()}\n")
  file.flush()
  _open_locks.append((file, is_new))
  _remove_incomplete(folder)
  _remove_incomplete(os.path.join(folder, run_record.BEST))


def _remove_locks():
  """Removes files of locks, and new folders that have held nothing else."""
  for file, is_new in _open_locks:
    with suppress(OSError):  # removed already, or the folder is not empty
      os.remove(file.name)
      if is_new:
        os.rmdir(os.path.dirname(file.name))


def _remove_incomplete(folder):
  for name in os.listdir(folder) if os.path.isdir(folder) else ():
    partial = files.PARTIAL.match(name)
    is_left = partial and processes.has_ended(int(partial[1]))
    if is_left or name.startswith(run_record.UNFINISHED):
      os.remove(os.path.join(folder, name))
