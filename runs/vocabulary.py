"""The vocabulary of a run that does not name it, and the case of its texts."""

from collections.abc import Mapping
from contextlib import suppress

from data import tokenizer_files, vocab_checks
from data.tokenizer_files import open_tokenizer
from storage import UserError
from training import run_record

PADDING = 128  # embedding tables may be padded to a multiple of this


def sibling(start: str) -> str | None:
  """Path of the vocabulary beside a checkpoint or in a folder, of any kind."""
  paths = (run_record.sibling_file(start, n) for n in tokenizer_files.names())
  return next(filter(None, paths), None)


def find(start: str, entry: Mapping, vocab_size: int) -> str | None:
  """Path of a vocabulary of the model's size beside the files of a run.

  `start` is the run's folder or checkpoint, `entry` is of run.json.
  """
  flags = ("bert_config_file", "init_checkpoint")
  for path in (start, *(run_record.path_of(entry, flag) for flag in flags)):
    file = path and sibling(path)
    with suppress(UserError, OSError):  # another file of that name
      if file and 0 <= vocab_size - len(open_tokenizer(file).vocab) < PADDING:
        return file.removeprefix("./")
  return None


def lower_cases(trained_flags: Mapping, vocab_file: str) -> bool:
  """Whether a model lower-cases texts: by its run, else by its vocabulary."""
  known = trained_flags.get("do_lower_case")
  if known is None or not trained_flags.get("vocab_file"):
    tokens = open_tokenizer(vocab_file).vocab
    return vocab_checks.doubt_case(tokens, True) is None
  return known
