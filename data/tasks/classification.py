"""One or two texts and their label to a record (run_classifier.py).

Legend: T tokens.
"""

from collections.abc import Sequence
from typing import NamedTuple

from data import features, packing, vocab
from data.tokenization import CachedTokenizer, FullTokenizer


class Example(NamedTuple):
  """Texts to be classified.

  Attributes:
    guid: names the example, such as "dev-7".
    text_a: first text.
    text_b: second text, if there are two.
    label: the class, or a score as text; None if it is not known.
  """

  guid: str
  text_a: str
  text_b: str | None = None
  label: str | None = None


def schema(seq_length: int, labels: Sequence[str] | None) -> features.Schema:
  """What `Builder` of the same arguments makes."""
  if labels is None:
    return features.regression(seq_length)
  return features.classification(seq_length)


def padded(examples: Sequence[Example], batch_size: int) -> list:
  """Fills the last batch with None, for TPUs, which take full ones only."""
  return [*examples, *[None] * (-len(examples) % batch_size)]


class Builder:
  """Makes the record of an example: [CLS] a [SEP], or [CLS] a [SEP] b [SEP].

  Arguments:
    tokenizer: text to tokens.
    seq_length: T; longer texts are shortened, the longer one first.
    labels: the classes in the order of their numbers; None if labels are
      scores.

  Call arguments:
    example: what to make a record of; None makes one of zeros, which fills up
      a batch and counts for nothing.

  Returns:
    Fields by name as in `schema`. An unknown label is 0.

  Raises:
    ValueError: T is too short, or the vocabulary lacks a special token.
  """

  def __init__(
    self,
    tokenizer: FullTokenizer,
    seq_length: int,
    labels: Sequence[str] | None,
  ):
    if seq_length < 3:
      raise ValueError(
        f"max_seq_length {seq_length} is too short: [CLS], [SEP] and a token "
        "take 3"
      )
    vocab.require(tokenizer.vocab, (vocab.CLS, vocab.SEP))
    self._ids = CachedTokenizer(tokenizer).ids
    self._cls = tokenizer.vocab[vocab.CLS]
    self._sep = tokenizer.vocab[vocab.SEP]
    self._seq_length = seq_length
    self._numbers = labels and {label: i for i, label in enumerate(labels)}

  def __call__(self, example: Example | None) -> dict[str, list]:
    """Makes one record."""
    ids, segments = self._joined(example) if example else ([], [])
    return {
      **packing.inputs(ids, segments, self._seq_length),
      "label_ids": [self._label(example)],
      "is_real_example": [int(example is not None)],
    }

  def _joined(self, example):
    first = self._ids(example.text_a)
    # A second text without a token is none, and gets no [SEP].
    second = self._ids(example.text_b or "") or None
    if second:
      packing.truncate_pair(first, second, self._seq_length - 3)
    else:
      del first[self._seq_length - 2 :]
    return packing.join(first, second, self._cls, self._sep)

  def _label(self, example):
    if example is None or example.label is None:
      return 0
    if self._numbers is None:
      return float(example.label)
    return self._numbers[example.label]
