"""Finds the files of a model, beside its checkpoint or at paths in run.json."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from data import tokenization
from data.tokenization import doubt_case, open_tokenizer
from data.vocab import Tokenizer
from modeling.config import BertConfig, extensions
from storage import UserError, files
from training import checkpoint_files, run_json

PADDING = 128  # embedding tables may be padded to a multiple of this


class ModelFiles(NamedTuple):
  """Paths of a model's files, letter case of texts, and configuration."""

  checkpoint: str
  bert_config_file: str
  vocab_file: str
  do_lower_case: bool
  config: BertConfig

  @property
  def tokenizer(self) -> Tokenizer:
    return open_tokenizer(self.vocab_file, self.do_lower_case)


def find_model(path: str) -> ModelFiles:
  """Finds the files of a checkpoint, in its folder or at paths in run.json.

  `path` is a folder or the prefix of a checkpoint. Flags in run.json override
  bert_config.json and the vocabulary's letter case. Raises FileNotFoundError.
  """
  prefix = checkpoint_files.find_checkpoint(path)
  entry = checkpoint_files.run_of(prefix)
  remedy = f"beside {prefix}: copy the model's file there"
  config_file = file_of(prefix, "bert_config_file")
  if not config_file:
    raise FileNotFoundError(f"there is no bert_config.json {remedy}")
  config = BertConfig.from_json(config_file)
  vocab_file = file_of(prefix, "vocab_file")
  vocab_file = vocab_file or find_vocabulary(prefix, entry, config.vocab_size)
  if not vocab_file:
    raise FileNotFoundError(f"there is no vocab.txt {remedy}")
  if is_other(entry, open_tokenizer(vocab_file)):
    raise other_vocabulary(vocab_file, prefix)
  lower_case = lower_cases(entry["flags"], vocab_file)
  config = replace(config, **extensions(entry["flags"]))
  return ModelFiles(prefix, config_file, vocab_file, lower_case, config)


def is_other(entry: Mapping, *tokenizers: Tokenizer) -> bool:
  """True if an entry of run.json has a fingerprint that no tokenizer fits."""
  mark = entry.get("vocabulary")
  return mark is not None and not any(t.fits(mark) for t in tokenizers)


def other_vocabulary(path: str, start: str) -> UserError:
  folder = start if files.is_folder(start) else os.path.dirname(start) or "."
  return UserError(
    f"{path} is not the vocabulary with which {start} was trained: give that "
    f"file, or copy it into {folder}"
  )


def sibling(path: str, flag: str) -> str | None:
  """Path of a flag's file in a checkpoint's folder, or None.

  The flag is `bert_config_file`, or `vocab_file` for a vocabulary of any kind.
  """
  paths = (checkpoint_files.sibling_file(path, name) for name in _names(flag))
  return next(filter(None, paths), None)


def file_of(path: str, flag: str) -> str | None:
  """Path from `sibling`, or else from the checkpoint's run.json."""
  return checkpoint_files.file_of(path, flag, *_names(flag))


def _names(flag):
  is_vocabulary = flag == "vocab_file"
  return tokenization.names() if is_vocabulary else ["bert_config.json"]


def find_vocabulary(start: str, entry: Mapping, vocab_size: int) -> str | None:
  """Finds a vocabulary with `vocab_size` tokens, or a few less; path or None.

  Searches the folder `start`, or the folder of the checkpoint `start`. Then
  searches the folders of the configuration and of the initial checkpoint that
  `entry` names. `entry` comes from run.json. The vocabulary's fingerprint in
  it, if any, must match.
  """
  flags = ("bert_config_file", "init_checkpoint")
  for path in (start, *(run_json.path_of(entry, flag) for flag in flags)):
    file = path and sibling(path, "vocab_file")
    with suppress(UserError, OSError):  # not a vocabulary
      if not file:
        continue
      tokenizer = open_tokenizer(file)
      fits = 0 <= vocab_size - len(tokenizer.vocab) < PADDING
      if fits and not is_other(entry, tokenizer):
        return file.removeprefix("./")
  return None


def lower_cases(trained_flags: Mapping, vocab_file: str) -> bool:
  """True if a model lower-cases texts, as run.json or its vocabulary shows."""
  known = trained_flags.get("do_lower_case")
  if known is None or not trained_flags.get("vocab_file"):
    tokens = open_tokenizer(vocab_file).vocab
    return doubt_case(tokens, True) is None
  return known
