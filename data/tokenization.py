"""The original's tokenizer in its simplest form, and a registry of tokenizers.

`CachedTokenizer` is faster; tokenization_ops.py uses TensorFlow operations.
"""

import itertools
import os
import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from absl import logging

from data import vocab
from data.vocab import UNK, Tokenizer
from storage import UserError, files, setting

# Unicode blocks of Chinese characters, as in the original.
CJK_RANGES = (
  (0x4E00, 0x9FFF),
  (0x3400, 0x4DBF),
  (0x20000, 0x2A6DF),
  (0x2A700, 0x2B73F),
  (0x2B740, 0x2B81F),
  (0x2B820, 0x2CEAF),
  (0xF900, 0xFAFF),
  (0x2F800, 0x2FA1F),
)

JOINER = "##"  # prefix of all pieces of a word but the first
MAX_CHARS_PER_WORD = 200  # Longer words are unknown.

# Folder names of released models; "multilingual" is lower-cased.
_SIZE = r"L-\d+_H-\d+_A-\d+"
_LOWER_CASED = re.compile(rf"((wwm_)?uncased|multilingual|chinese)_{_SIZE}")
_CASED = re.compile(rf"(wwm_|multi_)?cased_{_SIZE}")

_SPECIAL = re.compile(r"\[\w+\]")
# Maximum fraction of tokens with capitals or accents in a lower-cased
# vocabulary. Released cased vocabularies have a third or more.
_MAX_CASED = 0.05
_MIN_WORDS = 50  # fewer tokens with ASCII letters (Korean) do not tell the case


class FullTokenizer(Tokenizer):
  """Splits text into word pieces; `do_lower_case` also strips accents."""

  def __init__(self, vocab_file: str | os.PathLike, do_lower_case=True):
    self.vocab_file = os.fspath(vocab_file)
    self.do_lower_case = do_lower_case
    self.vocab = vocab.load(vocab_file)
    self.basic_tokenizer = BasicTokenizer(do_lower_case)
    self.wordpiece_tokenizer = WordpieceTokenizer(self.vocab)

  def tokenize(self, text: str | bytes) -> list[str]:
    return self.wordpiece_tokenizer.tokenize(" ".join(self.words(text)))

  def words(self, text: str | bytes) -> list[str]:
    return self.basic_tokenizer.tokenize(text)

  def join(self, tokens: Iterable[str]) -> str:
    text = " ".join(tokens).replace(f" {JOINER}", "").replace(JOINER, "")
    return " ".join(text.split())

  def continues(self, token: str) -> bool:
    return token.startswith(JOINER)

  def cached_ids(self) -> Callable[[str], list[int]]:
    return CachedTokenizer(self).ids

  def save(self, folder: str) -> None:
    text = vocab.read_text(self.vocab_file)
    files.write_text(os.path.join(folder, "vocab.txt"), text)

  def in_graph(self):
    from data.tokenization_ops import GraphTokenizer  # noqa: PLC0415, TensorFlow

    return GraphTokenizer(self)


@dataclass(frozen=True)
class BasicTokenizer:
  """Cleans text, and splits it at whitespace and around punctuation."""

  do_lower_case: bool = True

  def tokenize(self, text: str | bytes) -> list[str]:
    """Splits a text into words, punctuation characters and CJK characters."""
    text = convert_to_unicode(text)
    if text.isascii() and text.isalnum():  # most words need no more
      return [text.lower() if self.do_lower_case else text]
    text = text.translate(_CLEANED)
    if self.do_lower_case:
      text = strip_accents(text.lower())
    return text.translate(_SEPARATED).split()


@dataclass(frozen=True)
class WordpieceTokenizer:
  """Splits words from the left, always after the longest piece that is known.

  A word that cannot be split becomes [UNK].
  """

  vocab: Mapping[str, int]

  def tokenize(self, text: str | bytes) -> list[str]:
    """Splits the words of a text: "unaffable" -> ["un", "##aff", "##able"]."""
    tokens: list[str] = []
    for word in convert_to_unicode(text).split():
      pieces, start = [], 0
      while start < len(word) <= MAX_CHARS_PER_WORD:
        prefix = JOINER if start else ""
        for limit in range(len(word), start, -1):
          if prefix + word[start:limit] in self.vocab:
            break
        else:
          break
        pieces.append(prefix + word[start:limit])
        start = limit
      tokens += pieces if start == len(word) else [UNK]
    return tokens


_ASCII_WORDS = re.compile(r"[A-Za-z0-9]+|\S")


class CachedTokenizer(dict):
  """Cache of a FullTokenizer's ids for each piece of text between blanks.

  U+0020 always ends a word and has no other effect. A full cache is cleared.
  """

  MAX_LENGTH = 100  # longest piece in the cache; longer pieces are rare

  def __init__(self, tokenizer: FullTokenizer, max_pieces: int = 1_000_000):
    self._tokenizer, self._max_pieces = tokenizer, max_pieces

  def ids(self, line: str) -> list[int]:
    pieces = map(self.__getitem__, line.split(" "))
    return list(itertools.chain.from_iterable(pieces))

  def __missing__(self, piece):
    words = [piece]
    if piece.isascii() and piece.isprintable():  # needs no cleaning
      lower = self._tokenizer.do_lower_case
      words = _ASCII_WORDS.findall(piece.lower() if lower else piece)
    if words == [piece]:
      ids = tuple(self._tokenizer.ids(piece))
    else:  # "end." is "end" and ".", which the cache is likely to have
      pieces = map(self.__getitem__, words)
      ids = tuple(itertools.chain.from_iterable(pieces))
    if len(piece) <= self.MAX_LENGTH:
      if len(self) >= self._max_pieces:
        self.clear()
      self[piece] = ids
    return ids


# --- Kinds of tokenizers ----------------------------------------------------

# {extension of the vocabulary file: tokenizer}. In a model's folder the file is
# `vocab` plus the extension. Any other extension stands for word pieces.
KINDS: dict[str, Callable[[str, bool], Tokenizer]] = {".txt": FullTokenizer}


def open_tokenizer(
  vocab_file: str | os.PathLike, do_lower_case: bool = True
) -> Tokenizer:
  """Reads a vocabulary and makes the tokenizer; raises UserError or OSError."""
  path = os.fspath(vocab_file)
  kind = KINDS.get(os.path.splitext(path)[1], FullTokenizer)
  return kind(path, do_lower_case)


def names() -> list[str]:
  """File names that a vocabulary may have in a model's folder."""
  return [f"vocab{ending}" for ending in KINDS]


# --- Characters and letter cases -------------------------------------------


def convert_to_unicode(text: str | bytes) -> str:
  """Text as str; drops bytes that are not UTF-8."""
  if isinstance(text, bytes):
    return text.decode("utf-8", "ignore")
  if isinstance(text, str):
    return text
  raise ValueError(f"Unsupported string type: {type(text)}")


def strip_accents(text: str) -> str:
  """Decomposes a text (NFD) and drops the non-spacing marks."""
  if text.isascii():
    return text
  chars = unicodedata.normalize("NFD", text)
  return "".join([c for c in chars if unicodedata.category(c) != "Mn"])


def is_whitespace(char: str) -> bool:
  """True for characters that become a blank."""
  return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def is_removed(char: str) -> bool:
  """True for characters that are dropped: control, format, U+FFFD."""
  if char in "\t\n\r":
    return False
  return char in "\0\ufffd" or unicodedata.category(char) in ("Cc", "Cf")


def is_punctuation(char: str) -> bool:
  """True for Unicode punctuation, and for all ASCII symbols, such as "$"."""
  category = unicodedata.category(char)
  return char in string.punctuation or category.startswith("P")


def is_cjk(char: str) -> bool:
  """True for Chinese characters. Each one is a word."""
  return any(first <= ord(char) <= last for first, last in CJK_RANGES)


def validate_case_matches_checkpoint(
  do_lower_case: bool,
  init_checkpoint: str | None,
  flag: str = "init_checkpoint",
) -> None:
  """Raises ValueError if a folder's name contradicts `do_lower_case`.

  The names of released models tell the case: see _CASED and _LOWER_CASED.
  """
  path = PurePosixPath(init_checkpoint or "")
  folder, others = path.parent.name, _CASED if do_lower_case else _LOWER_CASED
  if path.name.startswith("bert_model.ckpt") and others.fullmatch(folder):
    kind = "cased" if do_lower_case else "lower-cased"
    raise UserError(
      f"{setting('do_lower_case', bool(do_lower_case))} does not fit"
      f" {setting(flag, init_checkpoint)}: {folder} is a {kind} model; give"
      f" {setting('do_lower_case', not do_lower_case)}"
    )


def doubt_case(tokens: Iterable[str], lower_case: bool) -> str | None:
  """Returns a warning if a vocabulary does not fit `lower_case`, else None."""
  words = [token for token in tokens if not _SPECIAL.fullmatch(token)]
  latin = [word for word in words if re.search("[A-Za-z]", word)]
  remedy = f"give {setting('do_lower_case', not lower_case)}"
  if lower_case:
    lost = [word for word in words if strip_accents(word.lower()) != word]
    if len(lost) > _MAX_CASED * len(words):
      text = f"has {len(lost)} of {len(words)} tokens with capitals or accents"
      return f"{text} ({', '.join(lost[:3])}): {remedy}"
  elif len(latin) >= _MIN_WORDS and not any(w != w.lower() for w in words):
    return f"has no token with a capital letter: {remedy}"
  return None


def warn_of_case(tokenizer: Tokenizer) -> None:
  """Logs the result of `doubt_case` as a warning."""
  if doubt := doubt_case(tokenizer.vocab, tokenizer.do_lower_case):
    given = setting("do_lower_case", tokenizer.do_lower_case)
    text = f"{given}, but {tokenizer.vocab_file} {doubt}"
    logging.log_first_n(logging.WARNING, text, 1)


# Tables for str.translate, which compute the entry of each character once.


class _Cleaned(dict):
  def __missing__(self, code: int) -> str:
    char = chr(code)
    if is_removed(char):
      char = ""
    elif is_whitespace(char):
      char = " "
    elif is_cjk(char):
      char = f" {char} "
    return self.setdefault(code, char)


class _Separated(dict):
  def __missing__(self, code: int) -> str:
    char = chr(code)
    char = f" {char} " if is_punctuation(char) else char
    return self.setdefault(code, char)


_CLEANED, _SEPARATED = _Cleaned(), _Separated()
