"""Vocabulary files, and the interface of tokenizers.

The id of a token is the number of its line, from 0. A tokenizer.json of
transformers is read as the equivalent vocab.txt. To add a tokenizer, write a
subclass of `Tokenizer` and add it to KINDS in tokenization.py.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from storage import UserError, files, textfiles

if TYPE_CHECKING:
  from data.tokenization_ops import GraphTokenizer


class SpecialTokens(NamedTuple):
  """Spellings of the tokens that BERT needs."""

  pad: str
  unknown: str
  cls: str
  sep: str
  mask: str


SPECIAL_TOKENS = SpecialTokens("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS
_UNUSED = re.compile(r"\[unused\d+\]")
_SPAN = re.compile(r"(\d+)-(\d+)")


def load(path: str | os.PathLike) -> dict[str, int]:
  r"""Reads {token: id} from a vocabulary; ValueError for an empty file.

  Lines end at "\n" only and are stripped. The last of several equal lines gives
  the id, and the first gives the position in the dict. The original draws
  random words from `list(load(path))`, so the order of the keys matters.
  """
  ids = {}
  path = os.fspath(path)
  lines = _json_lines(path) if path.endswith(".json") else textfiles.lines(path)
  for number, line in enumerate(lines):
    line = line if number else line.removeprefix("\ufeff")
    ids[line.replace("\r", "").strip()] = number
  if not ids:
    raise UserError(f"{path} is empty; a vocabulary has one token a line")
  return ids


def read_text(path: str | os.PathLike) -> str:
  """Content of a vocab.txt; a tokenizer.json is converted to a vocab.txt."""
  path = os.fspath(path)
  if path.endswith(".json"):
    return "".join(f"{line}\n" for line in _json_lines(path))
  return files.read_text(path)


def _json_lines(path):
  settings = textfiles.read_json(path)
  model = settings.get("model") or {}
  kind = model.get("type", "WordPiece")  # early files have no type
  actual = kind, model.get("continuing_subword_prefix"), model.get("unk_token")
  if actual != ("WordPiece", "##", UNK):
    raise UserError(
      f"{path}: its model is {kind} with prefix {actual[1]} and unknown token "
      f"{actual[2]}; BERT needs WordPiece with ## and {UNK}"
    )
  added = settings.get("added_tokens", ())
  added_ids = {token["content"]: token["id"] for token in added}
  ids = model.get("vocab", {}) | added_ids
  lines = [""] * (1 + max(ids.values(), default=-1))
  for token, index in ids.items():
    lines[index] = " ".join(token.split())
  return lines


def unused_ids(tokens: Iterable[str]) -> list[int]:
  """Indices of the tokens [unused0], [unused1], ..."""
  return [i for i, token in enumerate(tokens) if _UNUSED.fullmatch(token)]


def save(tokens: Iterable[str], path: str | os.PathLike) -> None:
  """Writes tokens in order."""
  files.write_text(os.fspath(path), "".join(f"{token}\n" for token in tokens))


def check_tokens(
  vocabulary: Collection[str], tokens: Iterable[str], name: str
) -> None:
  """Raises ValueError if a vocabulary lacks tokens that a program needs."""
  if missing := [token for token in tokens if token not in vocabulary]:
    raise UserError(
      f"{name} lacks {', '.join(missing)}; add a line for each (for a trained "
      "model, replace an [unused] line), or take the vocab.txt that came with "
      "the model"
    )


def check_size(
  vocabulary: Mapping[str, int],
  vocab_size: int,
  name: str = "the vocabulary",
  config: str = "bert_config.json",
) -> None:
  """Raises ValueError if a model has too few embeddings for a vocabulary."""
  ids = [index for token, index in vocabulary.items() if token]
  number = 1 + max(ids, default=-1)
  if number > vocab_size:
    raise UserError(
      f"{name} has {number} lines but vocab_size in {config} is {vocab_size}: "
      "take the vocab.txt and the bert_config.json that came with the model"
    )


def check_same(
  ids: Mapping[str, int], expected: Mapping[str, int], name: str, source: str
) -> None:
  """Raises ValueError if `ids` differ from `expected`, the model's vocabulary.

  New tokens may replace [unused] tokens or follow the last token.
  """
  for token, line in sorted(expected.items(), key=lambda pair: pair[1]):
    if token and ids.get(token) != line and not _UNUSED.fullmatch(token):
      tokens = {index: repr(token) for token, index in ids.items()}
      raise UserError(
        f"{name} is not the vocabulary of the model: line {line + 1} is "
        f"{tokens.get(line, 'missing')}, but {token!r} in {source}: take that "
        "file, and replace only [unused] lines"
      )


class Tokenizer(Protocol):
  """Converts texts to tokens and ids, and back. Tokenizers can be pickled."""

  vocab_file: str
  do_lower_case: bool
  vocab: Mapping[str, int]  # the order of the keys decides what masking draws
  special: SpecialTokens = SPECIAL_TOKENS
  pad: int = 0  # pads records; any id will do, because models read the mask

  def __init__(self, vocab_file: str | os.PathLike, do_lower_case: bool): ...

  def tokenize(self, text: str) -> list[str]:
    """Splits a text into tokens of the vocabulary; adds no special tokens."""

  def words(self, text: str) -> list[str]:
    """Splits a text into words, in the spelling of the tokens."""

  def join(self, tokens: Iterable[str]) -> str:
    """Joins tokens into a text: its `words`, separated by blanks."""

  def continues(self, token: str) -> bool:
    """True for a token that continues the word of the previous token."""

  def save(self, folder: str) -> None:
    """Writes the vocabulary to a folder, under a name in tokenization.names."""

  def ids(self, text: str) -> list[int]:
    """Ids of the tokens of a text."""
    return [self.vocab[token] for token in self.tokenize(text)]

  def cached_ids(self) -> Callable[[str], list[int]]:
    """Makes a function like `ids` that may cache words, for many texts."""
    return self.ids

  def in_graph(self) -> "GraphTokenizer | None":
    """Makes this tokenizer from TensorFlow operations; None if impossible."""
    return None

  def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
    """Looks up ids; KeyError for a token outside the vocabulary."""
    return list(map(self.vocab.__getitem__, tokens))

  def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
    """Looks up tokens; KeyError for an id outside the vocabulary."""
    return list(map(self.inv_vocab.__getitem__, ids))

  @cached_property
  def inv_vocab(self) -> dict[int, str]:
    return {index: token for token, index in self.vocab.items()}

  @cached_property
  def fingerprint(self) -> str:
    """Identifies the vocabulary in files of records, as HASH:SIZE:SPANS.

    HASH covers all tokens with ids below SIZE, except the ids in SPANS. SPANS
    are the ids of [unused] tokens and blank lines, such as 1-99,104-998.
    """
    tokens = {index: token for token, index in self.vocab.items() if token}
    size = 1 + max(tokens, default=-1)
    lines = [tokens.get(index) for index in range(size)]
    kinds = ["-" if not x or _UNUSED.fullmatch(x) else "+" for x in lines]
    free = re.finditer("-+", "".join(kinds))
    spans = [f"{match.start()}-{match.end() - 1}" for match in free]
    return self._mark(size, ",".join(spans))

  def _mark(self, size, spans):
    ids = {i: x for x, i in self.vocab.items() if x and i < size}
    for first, last in _SPAN.findall(spans):
      for index in range(int(first), min(int(last) + 1, size)):
        ids.pop(index, None)
    text = json.dumps(sorted(ids.items()))  # ASCII, so the hash never varies
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]}:{size}:{spans}"

  def fits(self, mark: str) -> bool:
    """True if this vocabulary, or one that it extends, has fingerprint `mark`.

    New tokens may replace [unused] tokens or follow the last token.
    """
    size, _, spans = mark.partition(":")[2].partition(":")
    is_own = mark == self.fingerprint
    return is_own or (size.isdigit() and mark == self._mark(int(size), spans))

  @property
  def unknown(self) -> int:
    return self.vocab[self.special.unknown]

  @property
  def cls(self) -> int:
    return self.vocab[self.special.cls]

  @property
  def sep(self) -> int:
    return self.vocab[self.special.sep]

  @property
  def mask(self) -> int:
    return self.vocab[self.special.mask]

  def check(self, *names: str) -> None:
    """Raises UserError if the vocabulary lacks special tokens.

    `names` are the fields of SpecialTokens to check, by default all.
    """
    names = names or self.special._fields
    tokens = [getattr(self.special, name) for name in names]
    check_tokens(self.vocab, tokens, self.vocab_file)
