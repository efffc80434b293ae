"""Vocabulary files, as load_vocab of the original: line number = id."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from storage import UserError, files, textfiles

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK)
_UNUSED = re.compile(r"\[unused\d+\]")


def load(path: str | os.PathLike) -> dict[str, int]:
  r"""Reads a vocabulary file: ids by token. An empty file is a ValueError.

  Lines end at "\n" only and are stripped. Of equal lines the number of the last
  is the id, but the position of the first determines the order of the keys: the
  original draws its random words from `list(load(path))`.
  """
  ids = {}
  for number, line in enumerate(textfiles.lines(os.fspath(path))):
    ids[line.replace("\r", "").strip()] = number
  if not ids:
    raise UserError(f"{path} is empty; a vocabulary has one token a line")
  return ids


def read_tokens(path: str | os.PathLike) -> list[str]:
  """Tokens in the order of their ids; ValueError for blanks and duplicates."""
  tokens = [line.strip() for line in textfiles.lines(os.fspath(path))]
  while tokens and not tokens[-1]:
    tokens.pop()
  first: dict[str, int] = {}
  for index, token in enumerate(tokens):
    if not token or first.setdefault(token, index) != index:
      raise UserError(f"{path}, line {index + 1}: {token!r} is blank or double")
  return tokens


def unused_ids(tokens: Iterable[str]) -> list[int]:
  """Indices of the tokens [unused0], [unused1], ..."""
  return [i for i, token in enumerate(tokens) if _UNUSED.fullmatch(token)]


def save(tokens: Iterable[str], path: str | os.PathLike) -> None:
  """Writes tokens by id; ValueError if one would not be read back as it is."""
  tokens = list(tokens)
  for token, number in Counter(tokens).items():
    is_line = token and token == token.strip() and not set(token) & {*"\r\n"}
    if number > 1 or not is_line:
      raise UserError(f"{token!r} is no line of a vocabulary, or there twice")
  files.write_text(os.fspath(path), "".join(f"{token}\n" for token in tokens))


def check_tokens(
  vocabulary: Mapping[str, int],
  tokens: Iterable[str] = SPECIAL_TOKENS,
  name: str = "the vocabulary",
) -> None:
  """Raises ValueError if a vocabulary lacks tokens that a program needs."""
  missing = [token for token in tokens if token not in vocabulary]
  if not missing:
    return
  remedy = (
    "add each as a line of its own, in place of an [unused] one where a trained"
    " model's ids must stay, or take the vocab.txt that came with the model"
  )
  if next(iter(vocabulary), "").startswith("\ufeff"):
    remedy = "its first line begins with a byte order mark: save it without"
  raise UserError(f"{name} lacks {', '.join(missing)}; {remedy}")


def check_size(
  vocabulary: Mapping[str, int],
  vocab_size: int,
  name: str = "the vocabulary",
  config: str = "bert_config.json",
) -> None:
  """Raises ValueError if a model has too few embeddings for a vocabulary.

  `name` and `config` are the sources of the vocabulary and of vocab_size.
  """
  ids = (index for token, index in vocabulary.items() if token)
  number = 1 + max(ids, default=-1)
  if number > vocab_size:
    raise UserError(
      f"{name} has {number} lines but vocab_size in {config} is {vocab_size}: "
      "take the vocab.txt and the bert_config.json that came with the model"
    )


def check_same(
  ids: Mapping[str, int], expected: Mapping[str, int], name: str, source: str
) -> None:
  """Raises ValueError if a vocabulary is not that of the model, `expected`.

  New tokens may replace [unused] ones or follow the last one. `name` and
  `source` are the paths of both.
  """
  different = {
    index: token
    for token, index in expected.items()
    if token and ids.get(token) != index and not _UNUSED.fullmatch(token)
  }
  if not different:
    return
  line = min(different)
  tokens = {index: token for token, index in ids.items()}
  token = repr(tokens[line]) if line in tokens else "missing"
  raise UserError(
    f"{name} is not the vocabulary of the model: line {line + 1} is {token}, "
    f"but {different[line]!r} in {source}: take that file, of which only "
    "[unused] lines may be replaced"
  )
