"""Start and end of a program: --help, signals, errors, checks of its files."""

import atexit
import errno
import gc
import logging as python_logging
import os
import re
import signal
import sys
import tempfile
import textwrap
from collections.abc import Callable, Sequence

from absl import app, flags, logging

from cli import arguments
from cli.arguments import Arguments
from storage import UserError, files
from training import run_record

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_DISK_FULL_TEXT = re.compile(
  r"(?:([^\s;:('\"]+); )?(?:No space left|Disk quota exceeded)"
)
# Flags of most commands, in the order of --help.
_FIRST = """
  task_name data_dir train_file dev_file predict_file test_file text input
  input_file output output_file bert_config_file vocab_file vocab_size
  init_checkpoint output_dir do_lower_case do_train do_eval do_predict
  do_export export_dir max_seq_length train_batch_size learning_rate
  num_train_epochs num_train_steps num_warmup_steps version_2_with_negative
  input_format layers overwrite model host port
""".split()
_ORIGINAL = """
  batch_size doc_stride do_whole_word_mask dupe_factor eval_batch_size
  iterations_per_loop masked_lm_prob max_answer_length max_eval_steps
  max_predictions_per_seq max_query_length n_best_size
  null_score_diff_threshold predict_batch_size random_seed
  save_checkpoints_steps short_seq_prob use_one_hot_embeddings verbose_logging
  warmup_proportion
""".split()
_DEVICES = """
  distribution_strategy dtype gcp_project jit_compile master num_cpu_devices
  num_tpu_cores num_workers pipeline_options profile_steps runner tpu_name
  tpu_zone use_tpu
""".split()
# Optional for Keras: data frames, wrappers of estimators, pictures.
_UNUSED = ("cv2", "matplotlib", "pandas", "sklearn")
_PARSE_ERRORS = {
  r"\('Non-boolean argument.*": "true or false",
  r"invalid literal for int\(\).*": "an integer",
  r"could not convert string to float.*": "a number",
}


def run(
  main: Callable[[Arguments], None],
  check_flags: Callable[[Arguments], None] = lambda args: None,
  *,
  writes_files: bool = False,
) -> None:
  """Parses flags, then calls `check_flags(args)` and `main(args)`.

  `check_flags` raises an error if `main` would fail later, by flags or paths.
  If the program `writes_files`, SIGTERM removes those that are not complete.
  Those that train save a checkpoint instead: see cli/training_program.py.

  A user's mistake (`is_user_error`) is logged as one line and the status is 1.
  Other errors are defects and keep their traceback. BERT_TRACEBACK=1 always
  shows it. `main` imports TensorFlow after the checks.
  """
  from cli import interrupts  # noqa: PLC0415 (it acts when it is imported)

  def guarded(argv):
    logging.use_absl_handler()
    try:
      with interrupts.clean_up():
        if argv[1:]:
          raise _unexpected(argv[1])
        args = Arguments.from_flags(flags.FLAGS, sys.argv)
        check_flags(args)
        if writes_files:
          signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return main(args)
    except Exception as error:
      message = describe_full_disk(error)
      if not message and is_user_error(error):
        message = str(error)
      if os.environ.get("BERT_TRACEBACK") or message is None:
        raise
      logging.error("%s", message)
      return 1

  logging.set_verbosity(logging.INFO)
  logging.get_absl_handler().python_handler.setFormatter(_Formatter())
  silence_tensorflow()
  shorten_imports()
  app.run(guarded, flags_parser=_parse)


def end_with_reader() -> None:
  """Ends the process silently when a reader such as `head` has enough."""
  signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def silence_tensorflow() -> None:
  """Suppresses logs of TensorFlow but warnings; call it before the import."""
  if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3":
    python_logging.getLogger("tensorflow").setLevel(python_logging.WARNING)


def shorten_imports() -> None:
  """Keeps Keras from importing libraries that no program here needs.

  They take more than a third of the time of importing TensorFlow. Others, also
  this project, can import them. Python's garbage collection becomes rarer, as
  it takes a tenth of the time to a first training step, and is left out at the
  end of the process, where it takes a second.
  """
  gc.set_threshold(100_000, 50, 100)
  atexit.register(gc.freeze)
  if _Hidden not in sys.meta_path:
    sys.meta_path.insert(0, _Hidden)


class _Hidden:
  """Import hook that hides _UNUSED from Keras and TensorFlow."""

  @staticmethod
  def find_spec(name, path=None, target=None):
    if name not in _UNUSED:
      return
    frame = sys._getframe(1)
    while frame and frame.f_globals["__name__"].startswith("importlib."):
      frame = frame.f_back
    importer = frame.f_globals["__name__"] if frame else ""
    if importer.startswith(("keras.", "tensorflow.")):
      raise ModuleNotFoundError(f"{name} is hidden from {importer}", name=name)


def _parse(argv: list[str]) -> list[str]:
  """Parses flags, or ends the program; returns its name and other arguments."""
  if {"--help", "-help", "--helpshort", "-h"} & {*argv}:
    end_with_reader()
    print(help_text(sys.modules["__main__"].__doc__ or "", flags.FLAGS))
    sys.exit(0)
  if {"--version", "-version"} & {*argv}:
    print(version_text())
    sys.exit(0)
  try:
    given = flags.FLAGS.read_flags_from_files(argv[1:], force_gnu=False)
    return flags.FLAGS([argv[0], *map(arguments.from_line, given)])
  except (flags.Error, ValueError) as error:
    missing = re.findall(r"Flag --(\w+) must have a value", str(error))
    message = " ".join(str(error).removeprefix("ERROR:: ").split())
    for of_python, expected in _PARSE_ERRORS.items():
      message = re.sub(of_python, f"expected {expected}", message)
    if missing:
      message = f"missing: {', '.join(f'--{name}' for name in missing)}"
    print(f"ERROR: {message} (--help lists all flags)", file=sys.stderr)
    sys.exit(1)


def help_text(description: str, FLAGS: flags.FlagValues) -> str:
  """Description of a program and its flags, in groups."""
  names = {flag.name for flag in arguments.find_project_flags(FLAGS)}
  first = [name for name in _FIRST if name in names]
  original = sorted(names & {*_ORIGINAL})
  additional = sorted(names - {*_FIRST, *_ORIGINAL, *_DEVICES})
  groups = {
    "Most commands": first,
    "Others of the original": original,
    "Beyond the original" if original else "Others": additional,
    "Devices, processes and precision": sorted(names & {*_DEVICES}),
  }
  lines = [description.strip()]
  for heading, members in groups.items():
    if members:
      lines += ["", f"{heading}:"]
      lines += [_describe(FLAGS[name]) for name in members]
  lines += ["", "--flagfile=FILE reads flags from a file, one per line."]
  lines += ["--version prints versions of this project and its packages."]
  return "\n".join(lines)


def version_text() -> str:
  """Versions of the project and of what determines its numbers, in lines."""
  versions = run_record.versions() | {"commit": run_record.commit()}
  return "\n".join(f"{name} {version}" for name, version in versions.items())


def _describe(flag) -> str:
  """Lines of a flag: its name and default, then its help."""
  head = f"  --[no]{flag.name}" if flag.boolean else f"  --{flag.name}"
  if arguments.is_required(flag):
    head += "  (required)"
  elif default := (flag.default_as_str or "").strip("'"):
    head += f"  (default {default})"
  text = re.sub(r"^<[^>]*>: ", "", flag.help)  # list of enum values
  if values := getattr(flag.parser, "enum_values", None):
    text = f"{', '.join(values)}: {text}"
  return head + "\n" + textwrap.indent(textwrap.fill(text, 72), " " * 6)


class _Formatter(logging.PythonFormatter):
  """Log lines of time, level (other than INFO) and message."""

  def format(self, record):
    time = self.formatTime(record, "%H:%M:%S")
    level = "" if record.levelname == "INFO" else f"{record.levelname}: "
    return f"{time} {level}{record.getMessage()}"


def _unexpected(argument: str) -> UserError:
  if argument.lower() in ("true", "false"):
    remedy = f"a flag takes it with an equals sign, --do_train={argument}"
  else:
    remedy = (
      "quote a pattern, as in --input_file='*.txt', so that the shell does not "
      "expand it"
    )
  return UserError(f"unexpected argument {argument!r}: {remedy}")


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
  return (
    f"no space left on the disk{f' for {path}' if path else ''}: free some, or "
    "choose another folder, and run the same command again"
  )


# --- Checks of flags and of the files that they name --------------------


def check_export(args: Arguments) -> None:
  """Checks the flags of exports; raises ValueError or FileExistsError."""
  formats = args.export_format
  known = "savedmodel", "tflite", "keras"
  if not formats or not {*formats} <= {*known}:
    raise UserError(
      f"--export_format={','.join(formats)}: give one or more of "
      f"{', '.join(known)}, with commas between them"
    )
  if not args.do_export:
    return
  if not args.export_dir:
    raise UserError("--do_export needs --export_dir")
  if "tflite" in formats and args.dtype != "float32":
    raise UserError(
      f"--export_format=tflite does not go with --dtype={args.dtype}: train, "
      "then export in a run of its own without --dtype"
    )
  check_writable(args.export_dir, "export_dir")
  files.check_is_free(args.export_dir)


def check_files(args: Arguments, *names: str) -> None:
  """Checks the input files of flags, which must be set."""
  for name in names:
    if not args[name]:
      raise UserError(f"this command needs --{name}")
    check_file(args, name)


def check_file(args: Arguments, name: str) -> None:
  """Raises OSError if the file that a flag names, if any, cannot be read."""
  if args[name]:
    try:
      files.open_for_reading(args[name]).close()
    except OSError as error:
      raise type(error)(f"--{name}: {error}") from None


def check_writable(path: str, name: str) -> None:
  """Checks that a path, from the flag `name`, can be written; else OSError.

  Files are written beside their path first, so their folder has to be writable.
  """
  if files.is_remote(path):
    return files.check_writable(path)
  parent = os.path.abspath(path)
  if not os.path.isdir(parent):
    parent = os.path.dirname(parent)
  while not os.path.exists(parent):
    parent = os.path.dirname(parent)
  if not os.path.isdir(parent):
    raise NotADirectoryError(f"--{name}={path}: {parent} is no folder")
  try:  # also as root, which may write to folders that take no files
    tempfile.TemporaryFile(dir=parent).close()
  except OSError:
    raise PermissionError(
      f"--{name}={path}: {parent} cannot be written to"
    ) from None


def check_output_file(args: Arguments, *inputs: str) -> None:
  """Checks --output_file: no input, writable, new unless --overwrite is set."""
  path = args.output_file
  check_disjoint(inputs, path)
  check_writable_file(path)
  if not args.overwrite:
    check_is_new(path)


def check_writable_file(path: str) -> None:
  """Raises OSError if --output_file cannot be written, or is no file."""
  is_file = not os.path.exists(path) or os.path.isfile(path)
  if files.is_folder(path) or not is_file:
    raise OSError(f"--output_file={path} is no regular file: name another")
  check_writable(path, "output_file")


def check_is_new(*paths: str) -> None:
  """Raises FileExistsError if any of the paths exists."""
  present = [path for path in paths if files.exists(path)]
  if present:
    verb, them = ("exists", "it") if len(present) == 1 else ("exist", "them")
    raise FileExistsError(
      f"{', '.join(present)} {verb} already; remove {them}, or give --overwrite"
    )


def check_disjoint(inputs: Sequence[str], *outputs: str) -> None:
  """Raises ValueError if an output is one of the inputs."""
  read = {os.path.realpath(path) for path in inputs}
  for path in outputs:
    if os.path.realpath(path) in read:
      raise UserError(f"{path} is an input, too: choose another output")
