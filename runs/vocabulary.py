"""The vocabulary of a run that does not name it, and the case of its texts."""

from collections.abc import Mapping
from contextlib import suppress

from data import vocab, vocab_checks
from storage import UserError
from training import checkpoint_files, run_json

NAME = "vocab.txt"
PADDING = 128  # embedding tables may be padded to a multiple of this


def find(start: str, entry: Mapping, vocab_size: int) -> str | None:
  """Path of a vocabulary of the model's size beside the files of a run.

  `start` is the run's folder or checkpoint, `entry` is of run.json.
  """
  flags = ("bert_config_file", "init_checkpoint")
  for path in (start, *(run_json.path_of(entry, flag) for flag in flags)):
    file = path and checkpoint_files.sibling_file(path, NAME)
    with suppress(UserError, OSError):  # another file of that name
      if file and 0 <= vocab_size - len(vocab.load(file)) < PADDING:
        return file.removeprefix("./")
  return None


def lower_cases(trained_flags: Mapping, vocab_file: str) -> bool:
  """Whether a model lower-cases texts: by its run, else by its vocabulary."""
  known = trained_flags.get("do_lower_case")
  if known is None or not trained_flags.get("vocab_file"):
    return vocab_checks.doubt_case(vocab.load(vocab_file), True) is None
  return known
