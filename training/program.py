"""How a program starts and how it ends when its user made a mistake."""

import os
import sys
import traceback

from absl import app, flags, logging

from training import cluster, dry_run, lock, ours


def run(main) -> None:
  """Runs `main(argv)` after flags are parsed.

  An error that this project itself raises is written for the user: it is
  printed as one line and ends the program with status 1. Any other error is a
  defect and keeps its traceback. BERT_TRACEBACK=1 shows it always.

  Args:
    main: what to run.
  """

  def guarded(argv):
    logging.use_absl_handler()
    try:
      _refuse_spare(argv[1:])
      with dry_run.shortened(flags.FLAGS):
        return main(argv)
    except (ValueError, OSError, FloatingPointError) as error:
      if os.environ.get("BERT_TRACEBACK") or not is_ours(error):
        raise
      logging.error("%s", error)
      return 1
    except KeyboardInterrupt:
      logging.error("interrupted")
      return 130

  for flag in ours.find_flags(flags.FLAGS):
    # Else --help would leave out what the program itself does not define.
    flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
  logging.set_verbosity(logging.INFO)
  logging.get_absl_handler().python_handler.setFormatter(_Formatter())
  app.run(guarded)


def _refuse_spare(arguments):
  if arguments:
    raise ValueError(
      f"unexpected argument {arguments[0]!r}: quote a pattern, as in "
      "--input_file='*.txt', so that the shell leaves it alone"
    )


def is_ours(error: BaseException) -> bool:
  """Whether this project raised it, or opened the file that failed."""
  frame = traceback.extract_tb(error.__traceback__)[-1]
  if not ours.is_file(frame.filename):
    return False
  return isinstance(error, OSError) or frame.line.startswith("raise ")


class _Formatter(logging.PythonFormatter):
  """Lines a person can read: the time, the level where it matters, the text."""

  def format(self, record):
    time = self.formatTime(record, "%H:%M:%S")
    level = "" if record.levelname == "INFO" else f"{record.levelname}: "
    return f"{time} {level}{record.getMessage()}"


def begin(FLAGS: flags.FlagValues) -> None:
  """What a run checks before any work: something to do, a folder of its own.

  Args:
    FLAGS: --output_dir and the --do_... flags that the program has.

  Raises:
    ValueError: no --do_... flag is set, or another run works in --output_dir.
  """
  known = ("do_train", "do_eval", "do_predict", "do_export")
  present = [name for name in known if name in FLAGS]
  if not any(FLAGS[name].value for name in present):
    *others, last = (f"--{name}" for name in present)
    raise ValueError(
      f"At least one of {', '.join(others)} and {last} must be True."
    )
  if cluster.is_chief():
    lock.take(FLAGS.output_dir)
