"""Records of multiple choice: a text pair for each ending.

The first text is sent1, the second sent2 with the ending (section 4.4 of the
paper).

Legend: C choices, T tokens.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from data import features, vocab
from data.tokenization import CachedTokenizer, FullTokenizer
from tasks.multiple_choice.examples import ChoiceExample


class ChoiceRecordBuilder:
  """Builds records with a row [CLS] sent1 [SEP] sent2 ending [SEP] per choice.

  Arguments:
    tokenizer: for all texts.
    seq_length: T; of longer pairs the longer text is truncated first.
    choices: C.

  Attributes:
    schema: of the records.
    lengths: number of pairs by number of tokens before truncation.

  Call arguments:
    example: a ChoiceExample; None for a record of zeros, which pads a batch.

  Returns:
    Flat values by name. An unknown label is 0.

  Raises:
    ValueError: T is too small, the vocabulary lacks a special token, or an
      example has another number of endings.
  """

  def __init__(self, tokenizer: FullTokenizer, seq_length: int, choices: int):
    if seq_length < 5:
      raise ValueError(
        f"max_seq_length {seq_length} is too short: [CLS], two [SEP] and a "
        "token of each text take 5"
      )
    vocab.check_tokens(tokenizer.vocab, (vocab.CLS, vocab.SEP))
    self._ids = CachedTokenizer(tokenizer).ids
    self._cls = tokenizer.vocab[vocab.CLS]
    self._sep = tokenizer.vocab[vocab.SEP]
    self._seq_length, self._choices = seq_length, choices
    self.schema = features.multiple_choice(seq_length, choices)
    self.lengths = Counter()

  def __call__(self, example: ChoiceExample | None) -> dict[str, Sequence[int]]:
    """Builds the record of an example."""
    if example is None:
      return {name: [0] * field.size for name, field in self.schema.items()}
    if len(example.endings) != self._choices:
      raise ValueError(
        f"{len(example.endings)} endings, but the model takes {self._choices}"
      )
    context = self._ids(example.sent1)
    rows = [
      self._pack(context, f"{example.sent2} {ending}")
      for ending in example.endings
    ]
    return {
      **{
        name: list(chain.from_iterable(row[name] for row in rows))
        for name in rows[0]
      },
      "label_ids": [example.label or 0],
      "is_real_example": [1],
    }

  def _pack(self, context, text):
    first, second = context[:], self._ids(text)
    self.lengths[len(first) + len(second) + 3] += 1
    features.truncate_pair(first, second, self._seq_length - 3)
    ids, segments = features.pack(first, second, self._cls, self._sep)
    return features.pad_inputs(ids, segments, self._seq_length)
