"""What a vocabulary is: a text file of word pieces, one a line, id = line.

Read as the original reads it (tokenization.py, load_vocab), with errors that
name the culprit.
"""

import os
from collections.abc import Iterable, Mapping

from data import files

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK)


def load(path: str | os.PathLike) -> dict[str, int]:
  r"""Reads a vocabulary file.

  Lines end at "\n" only and are stripped. Of equal lines the last one's
  number is the id, but the first one's place decides the order of the keys:
  `list(load(path))` is what the original draws its random words from.

  Args:
    path: one token a line, UTF-8.

  Returns:
    Ids by token.

  Raises:
    OSError: the file cannot be read.
    ValueError: a line is not UTF-8 (it is named), or the file is empty.
  """
  ids = {}
  for number, line in enumerate(files.lines(os.fspath(path))):
    ids[line.strip()] = number
  if not ids:
    raise ValueError(f"{path} is empty; a vocabulary has one token a line")
  return ids


def save(tokens: Iterable[str], path: str | os.PathLike) -> None:
  """Writes tokens to a vocabulary file, one a line.

  Args:
    tokens: the tokens in the order of their ids.
    path: where to write; an existing file is replaced.

  Raises:
    ValueError: a token would not be read back as it is: it occurs twice, is
      empty, has blanks around it or contains a line break.
  """
  tokens = list(tokens)
  seen = set()
  for token in tokens:
    if token != token.strip() or not token or "\n" in token or "\r" in token:
      raise ValueError(f"{token!r} cannot be a line of a vocabulary file")
    if token in seen:
      raise ValueError(f"{token!r} is in the vocabulary twice")
    seen.add(token)
  with files.open_for_writing(os.fspath(path)) as file:
    file.writelines(f"{token}\n".encode() for token in tokens)


def require(
  vocabulary: Mapping[str, int],
  tokens: Iterable[str] = SPECIAL_TOKENS,
  name: str = "the vocabulary",
) -> None:
  """Checks that tokens which a program needs are there.

  Args:
    vocabulary: ids by token.
    tokens: what has to be in it.
    name: what to call the vocabulary in the message, such as its path.

  Raises:
    ValueError: some are missing.
  """
  missing = [token for token in tokens if token not in vocabulary]
  if not missing:
    return
  remedy = (
    "add each as a line of its own, in place of an [unused] one where a trained"
    " model's ids must stay, or take the vocab.txt that came with the model"
  )
  if next(iter(vocabulary), "").startswith("\ufeff"):
    remedy = "its first line begins with a byte order mark: save it without"
  raise ValueError(f"{name} lacks {', '.join(missing)}; {remedy}")


def require_room(
  vocabulary: Mapping[str, int],
  vocab_size: int,
  name: str = "the vocabulary",
  config: str = "bert_config.json",
) -> None:
  """Checks that a model knows all ids.

  Args:
    vocabulary: ids by token.
    vocab_size: number of ids that the model has vectors for.
    name: what to call the vocabulary in the message, such as its path.
    config: the same of what says vocab_size.

  Raises:
    ValueError: the vocabulary is of a larger model.
  """
  number = 1 + max(vocabulary.values())
  if number > vocab_size:
    raise ValueError(
      f"{name} has {number} lines but vocab_size in {config} is {vocab_size}: "
      "take the vocab.txt that came with the model"
    )
