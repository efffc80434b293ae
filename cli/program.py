"""Start and end of a program: flags, lock of the output folder, errors."""

import errno
import fcntl
import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress

from absl import app, flags, logging

from cli import arguments, quiet
from cli.arguments import Arguments
from storage import UserError
from training import cluster, shutdown

LOCK_FILE = "run.lock"
# Open files of locks, each with True if its folder is new. The system releases
# a lock when its file is closed.
_open_locks = []
# Incomplete checkpoints (training/run_folder.py) and files (storage/files.py)
# of a killed run.
_UNFINISHED = re.compile(r"unfinished-model\.ckpt-")
_PARTIAL = re.compile(r".*\.partial-(\d+)(?:-[0-9a-f]+)?$")
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_DISK_FULL_TEXT = re.compile(
  r"(?:([^\s;:'\"]+); )?(?:No space left|Disk quota exceeded)"
)
_CHECKPOINT_FILE = re.compile(r"unfinished-([^/]+)\.(?:data|index).*")
_HDF5_FILE = re.compile(r"filename = '([^']+)'")


def run(
  main: Callable[[Arguments], None],
  check_flags: Callable[[Arguments], None] = lambda args: None,
) -> None:
  """Parses flags, then calls `check_flags(args)` and `main(args)`.

  A user's mistake (`is_user_error`) is logged as one line and the status is 1.
  Other errors are defects and keep their traceback. BERT_TRACEBACK=1 always
  shows it. `main` imports TensorFlow after the checks.
  """
  from cli import interrupts  # noqa: PLC0415 (it acts when it is imported)

  def guarded(argv):
    logging.use_absl_handler()
    try:
      with interrupts.clean_up():
        _check_no_positional(argv[1:])
        args = Arguments.from_flags(flags.FLAGS)
        with arguments.shorten_dry_run(args) as args:
          check_flags(args)
          if "output_file" in args:
            interrupts.end_in_order()
          if "output_dir" in args and cluster.is_chief():
            lock_folder(args.output_dir)
          return main(args)
    except Exception as error:
      message = _user_message(error)
      if os.environ.get("BERT_TRACEBACK") or message is None:
        raise
      logging.error("%s", message)
      _remove_locks()
      return 1

  logging.set_verbosity(logging.INFO)
  logging.get_absl_handler().python_handler.setFormatter(_Formatter())
  quiet.silence_tensorflow()
  quiet.shorten_imports()
  app.run(guarded, flags_parser=arguments.parse)


class _Formatter(logging.PythonFormatter):
  """Log lines of time, level (other than INFO) and message."""

  def format(self, record):
    time = self.formatTime(record, "%H:%M:%S")
    level = "" if record.levelname == "INFO" else f"{record.levelname}: "
    return f"{time} {level}{record.getMessage()}"


def _check_no_positional(arguments):
  if arguments:
    raise UserError(
      f"unexpected argument {arguments[0]!r}: quote a pattern, as in "
      "--input_file='*.txt', so that the shell does not expand it"
    )


def _user_message(error) -> str | None:
  """One line for a mistake of the user or a full disk; None for a defect."""
  if message := describe_full_disk(error):
    return message
  return str(error) if is_user_error(error) else None


def is_user_error(error: BaseException) -> bool:
  """True for a UserError and for OSErrors that name a path or are written here.

  The latter have a message in place of the system's error number.
  """
  if isinstance(error, OSError):
    return error.filename is not None or error.errno is None
  return isinstance(error, UserError)


def describe_full_disk(error: BaseException) -> str | None:
  """One line with the file and the remedy; None if the disk is not full."""
  match = _DISK_FULL_TEXT.search(str(error))
  if not match and getattr(error, "errno", None) not in _DISK_FULL:
    return None
  path = getattr(error, "filename", None) or (match and match[1])
  if hdf5_file := _HDF5_FILE.search(str(error)):
    path = hdf5_file[1]
  if path:  # of a checkpoint the prefix
    path = _CHECKPOINT_FILE.sub(r"\1", path.removeprefix("("))
  return (
    f"no space left on the disk{f' for {path}' if path else ''}: free some, or "
    "choose another folder, and run the same command again"
  )


def rerun(name: str, flags: Iterable[str]) -> None:
  """Runs this command again with more flags; ChildProcessError with `name`."""
  logging.info("%s begins", name)
  if status := shutdown.run_child([sys.executable, *sys.argv, *flags]):
    raise ChildProcessError(
      f"{name} ended with status {status}, for the reason above; the same "
      "command resumes from there"
    )


def lock_folder(folder: str) -> None:
  """Locks a local folder until this process ends; remote ones are not locked.

  Removes incomplete files of a run that was killed there. Raises
  NotADirectoryError, or ValueError if another process has locked it.
  """
  if "://" in folder:
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
      "%s cannot be locked (%s): start no second run there",
      *(folder, error.strerror),
    )
  file.truncate(0)
  file.write(f"{os.getpid()}\n")
  file.flush()
  _open_locks.append((file, is_new))
  _remove_incomplete(folder)
  _remove_incomplete(os.path.join(folder, "best"))


def _remove_locks():
  """Removes files of locks, and new folders that have held nothing else."""
  for file, is_new in _open_locks:
    with suppress(OSError):  # removed already, or the folder is not empty
      os.remove(file.name)
      if is_new:
        os.rmdir(os.path.dirname(file.name))


def _remove_incomplete(folder):
  for name in os.listdir(folder) if os.path.isdir(folder) else ():
    partial = _PARTIAL.match(name)
    if _UNFINISHED.match(name) or (partial and _has_ended(int(partial[1]))):
      os.remove(os.path.join(folder, name))


def _has_ended(process_id):
  """False if unknown, as for other workers, which may be on other hosts."""
  if cluster.has_others():
    return False
  try:
    os.kill(process_id, 0)
  except ProcessLookupError:
    return True
  except OSError:
    return False
  return False
