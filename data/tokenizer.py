"""The interface of tokenizers.

To add a tokenizer, write a subclass and add it to KINDS in tokenization.py.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from data.vocab import SPECIAL_TOKENS, SpecialTokens, check_tokens

if TYPE_CHECKING:
  from data.tokenization_ops import GraphTokenizer


class Tokenizer(Protocol):
  """Converts texts to tokens and ids, and back. Tokenizers can be pickled.

  Attributes:
    vocab_file: path of the vocabulary.
    do_lower_case: whether texts are lower-cased.
    vocab: ids by token. Masking draws random tokens in the order of the keys.
    special: spellings of the tokens that BERT needs.
    pad: id of padding in records. Any id will do, as models read `input_mask`.
  """

  vocab_file: str
  do_lower_case: bool
  vocab: Mapping[str, int]
  special: SpecialTokens = SPECIAL_TOKENS
  pad: int = 0

  def __init__(self, vocab_file: str | os.PathLike, do_lower_case: bool): ...

  def tokenize(self, text: str) -> list[str]:
    """Splits a text into tokens of the vocabulary; adds no special tokens."""

  def words(self, text: str) -> list[str]:
    """Splits a text into words, in the spelling of the tokens."""

  def join(self, tokens: Iterable[str]) -> str:
    """Joins tokens into a text: words as in `words`, with blanks between."""

  def continues(self, token: str) -> bool:
    """True for a token that continues the word of the previous token."""

  def save(self, folder: str) -> None:
    """Writes the vocabulary to a folder, under a name of tokenization.names."""

  def ids(self, text: str) -> list[int]:
    """Ids of the tokens of a text."""
    return self.convert_tokens_to_ids(self.tokenize(text))

  def cached_ids(self) -> Callable[[str], list[int]]:
    """Makes a faster `ids` for many texts, which may cache words."""
    return self.ids

  def in_graph(self) -> "GraphTokenizer | None":
    """The same tokenizer as TensorFlow operations, or None."""
    return None

  def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
    """Looks up ids; KeyError for a token outside the vocabulary."""
    return [self.vocab[token] for token in tokens]

  def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
    """Looks up tokens; KeyError for an id outside the vocabulary."""
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
    """Raises UserError if the vocabulary lacks special tokens.

    `names` are the fields of SpecialTokens to check, by default all.
    """
    names = names or self.special._fields
    tokens = [getattr(self.special, name) for name in names]
    check_tokens(self.vocab, tokens, self.vocab_file)
