"""Vocabulary files: a word piece a line, whose number is the id.

They are read as by load_vocab in the original's tokenization.py.
"""

import os
from collections.abc import Iterable, Mapping

from storage import files

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK)


def load(path: str | os.PathLike) -> dict[str, int]:
  r"""Reads a vocabulary file.

  Lines end at "\n" only and are stripped. Of equal lines the number of the last
  is the id, but the position of the first determines the order of the keys: the
  original draws its random words from `list(load(path))`.

  Args:
    path: one token a line, UTF-8.

  Returns:
    Ids by token.

  Raises:
    OSError: the file cannot be read.
    ValueError: a line is not UTF-8, or the file is empty.
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
    tokens: in the order of their ids.
    path: of the file; an existing one is replaced.

  Raises:
    ValueError: a token is empty or a duplicate, has blanks around it or
      contains a line break, and so would not be read back.
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


def check_tokens(
  vocabulary: Mapping[str, int],
  tokens: Iterable[str] = SPECIAL_TOKENS,
  name: str = "the vocabulary",
) -> None:
  """Checks that a vocabulary has all tokens that a program needs.

  Args:
    vocabulary: ids by token.
    tokens: the required tokens.
    name: name of the vocabulary for the message, such as its path.

  Raises:
    ValueError: tokens are missing.
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


def check_size(
  vocabulary: Mapping[str, int],
  vocab_size: int,
  name: str = "the vocabulary",
  config: str = "bert_config.json",
) -> None:
  """Checks that a model has an embedding for each id.

  Blank lines do not count, as no text has such a token.

  Args:
    vocabulary: ids by token.
    vocab_size: of the model.
    name: name of the vocabulary for the message, such as its path.
    config: name of the source of vocab_size.

  Raises:
    ValueError: the vocabulary is of a larger model.
  """
  ids = (index for token, index in vocabulary.items() if token)
  number = 1 + max(ids, default=-1)
  if number > vocab_size:
    raise ValueError(
      f"{name} has {number} lines but vocab_size in {config} is {vocab_size}: "
      "take the vocab.txt that came with the model"
    )
