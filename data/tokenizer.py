"""What all of the project but the word pieces themselves knows of a tokenizer.

Another kind of tokenizer is a subclass, and a row in tokenization.py.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from data.vocab import SPECIAL_TOKENS, SpecialTokens, check_tokens

if TYPE_CHECKING:
  from data.tokenization_ops import GraphTokenizer


class Tokenizer(Protocol):
  """Texts to tokens of a vocabulary and their ids, and back.

  A tokenizer is made from a `vocab_file` and `do_lower_case`, and can be
  pickled.

  Attributes:
    vocab: ids by token. Random tokens are drawn in the order of its keys.
    special: spellings of the tokens that BERT needs.
    pad: id of padding in records. Its value has no effect on a model, which
      reads `input_mask`: batches may be padded with any id.
  """

  vocab_file: str
  do_lower_case: bool
  vocab: Mapping[str, int]
  special: SpecialTokens = SPECIAL_TOKENS
  pad: int = 0

  def __init__(self, vocab_file: str | os.PathLike, do_lower_case: bool): ...

  def tokenize(self, text: str) -> list[str]:
    """Splits a text into tokens of the vocabulary, without special ones."""

  def words(self, text: str) -> list[str]:
    """Splits a text into words, spelled as their tokens spell them."""

  def join(self, tokens: Iterable[str]) -> str:
    """Text of tokens: words of `words`, with blanks between them."""

  def continues(self, token: str) -> bool:
    """True for a token that continues the word of the one before it."""

  def save(self, folder: str) -> None:
    """Writes the vocabulary to a folder, by a name of tokenization.names."""

  def ids(self, text: str) -> list[int]:
    """Ids of the tokens of a text."""
    return self.convert_tokens_to_ids(self.tokenize(text))

  def cached_ids(self) -> Callable[[str], list[int]]:
    """Makes a function as `ids` for many texts, which may remember words."""
    return self.ids

  def in_graph(self) -> "GraphTokenizer | None":
    """The same tokenizer as TensorFlow operations, if there are any."""
    return None

  def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
    """Looks up ids; a token outside the vocabulary is a KeyError."""
    return [self.vocab[token] for token in tokens]

  def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
    """Looks up tokens; an id outside the vocabulary is a KeyError."""
    return [self.inv_vocab[index] for index in ids]

  @cached_property
  def inv_vocab(self) -> dict[int, str]:
    return {index: token for token, index in self.vocab.items()}

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
    """Raises UserError if the vocabulary lacks special tokens, all by default.

    `names` are fields of SpecialTokens.
    """
    names = names or self.special._fields
    tokens = [getattr(self.special, name) for name in names]
    check_tokens(self.vocab, tokens, self.vocab_file)
