"""Records of classification examples, as run_classifier.py writes them.

Legend: T tokens.
"""

from collections import Counter
from collections.abc import Sequence

from data import features, vocab
from data.tokenization import CachedTokenizer, FullTokenizer
from storage.tfrecord import Schema
from tasks.classification.examples import TextExample


def record_schema(seq_length: int, labels: Sequence[str] | None) -> Schema:
  """Schema of the records of a `TextRecordBuilder` with these arguments."""
  if labels is None:
    return features.regression(seq_length)
  return features.classification(seq_length)


def pad_to_batch(examples: Sequence[TextExample], batch_size: int) -> list:
  """Fills the last batch with None: TPUs need batches of a fixed size."""
  return [*examples, *[None] * (-len(examples) % batch_size)]


class TextRecordBuilder:
  """Builds records of [CLS] a [SEP] or [CLS] a [SEP] b [SEP].

  Arguments:
    tokenizer: for both texts.
    seq_length: T; of longer pairs the longer text is truncated first.
    labels: classes in the order of their ids; None if labels are scores.

  Attributes:
    lengths: number of examples by number of tokens before truncation.

  Call arguments:
    example: a TextExample; None for a record of zeros, which pads a batch.

  Returns:
    Values by name, see `record_schema`. An unknown label is 0.

  Raises:
    ValueError: T is too small, or the vocabulary lacks a special token.
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
    vocab.check_tokens(tokenizer.vocab, (vocab.CLS, vocab.SEP))
    self._ids = CachedTokenizer(tokenizer).ids
    self._cls = tokenizer.vocab[vocab.CLS]
    self._sep = tokenizer.vocab[vocab.SEP]
    self._seq_length = seq_length
    self._label_ids = labels and {label: i for i, label in enumerate(labels)}
    self.lengths = Counter()

  def __call__(self, example: TextExample | None) -> dict[str, list]:
    """Builds the record of an example."""
    ids, segments = self._pack(example) if example else ([], [])
    return {
      **features.pad_inputs(ids, segments, self._seq_length),
      "label_ids": [self._label(example)],
      "is_real_example": [int(example is not None)],
    }

  def _pack(self, example):
    first = self._ids(example.text_a)
    # A second text without tokens gets no [SEP], as in the original.
    second = self._ids(example.text_b or "") or None
    self.lengths[len(first) + 2 + (len(second) + 1 if second else 0)] += 1
    if second:
      features.truncate_pair(first, second, self._seq_length - 3)
    else:
      del first[self._seq_length - 2 :]
    return features.pack(first, second, self._cls, self._sep)

  def _label(self, example):
    if example is None or example.label is None:
      return 0
    if self._label_ids is None:
      return float(example.label)
    return self._label_ids[example.label]
