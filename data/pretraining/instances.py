"""Documents to pre-training records: sentence pairs, and words masked in them.

With the same `random.Random` the records are those of the original's
create_pretraining_data.py, one by one: every draw is made where it made one.
Texts are token ids throughout. A segment (a line of the input) is a list of
them, a document a list of segments.

Legend: T tokens, P masked-LM predictions.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from random import Random

from absl import logging

from data import features, packing
from data.pretraining.documents import Document
from data.pretraining.mix import USUAL, Mix
from data.pretraining.sampling import below, shuffle
from data.pretraining.static_masking import StaticMasking
from data.progress import Progress
from data.tfrecord import Encoder
from data.vocab import CLS, MASK, SEP, UNK


@dataclass(frozen=True)
class Settings:
  """What the records of a data set have in common.

  Attributes:
    max_seq_length: T, 5 or more: [CLS] [SEP] [SEP] and a token on each side.
    max_predictions_per_seq: P, how many tokens of a record are masked at most.
    masked_lm_prob: share of the tokens that are masked.
    short_seq_prob: share of the documents cut into pairs shorter than T.
    dupe_factor: how many times the documents are gone through, with other
      pairs and other masks each time.
    whole_word: mask all pieces of a word or none.
    mix: what becomes of the masked words.
    masked: False stores pairs unmasked, to be masked whenever they are read.
  """

  max_seq_length: int = 128
  max_predictions_per_seq: int = 20
  masked_lm_prob: float = 0.15
  short_seq_prob: float = 0.1
  dupe_factor: int = 10
  whole_word: bool = False
  mix: Mix = USUAL
  masked: bool = True

  def __post_init__(self):
    """Refuses values that no record can be made with."""
    if self.max_seq_length < 5:
      raise ValueError(
        f"max_seq_length {self.max_seq_length} is too short: [CLS], two [SEP] "
        "and a token of each sentence take 5"
      )
    for name in ("max_predictions_per_seq", "dupe_factor"):
      if getattr(self, name) < 1:
        raise ValueError(f"{name} {getattr(self, name)} must be 1 or more")
    for name in ("masked_lm_prob", "short_seq_prob"):
      if not 0 <= getattr(self, name) <= 1:
        raise ValueError(f"{name} {getattr(self, name)} is not within 0 and 1")

  @property
  def tokens(self) -> tuple[str, ...]:
    """The special tokens that the vocabulary has to have."""
    return (CLS, SEP, UNK, MASK) if self.masked else (CLS, SEP, UNK)

  @property
  def schema(self) -> features.Schema:
    """The fields of a record."""
    if self.masked:
      return features.pretraining(
        self.max_seq_length, self.max_predictions_per_seq
      )
    return features.unmasked_pretraining(self.max_seq_length)


def pairs(
  documents: list[Document], index: int, rng: Random, settings: Settings
) -> Iterator[tuple[list[int], list[int], bool]]:
  """Cuts a document into sentence pairs (section 3.1, task 2, of the paper).

  A "sentence" is a run of segments; a pair fills T tokens, or fewer if the
  document is chosen to be one of the short ones. Half of the second sentences
  are those that follow, half are from elsewhere; segments that a foreign one
  replaces begin the next pair.

  Yields:
    Token ids of both sentences, T - 3 at most together, and whether the second
    is a random one.
  """
  document = documents[index]
  longest = settings.max_seq_length - 3  # [CLS] a [SEP] b [SEP]
  target = longest
  if rng.random() < settings.short_seq_prob:
    target = 2 + below(rng.getrandbits, longest - 1)

  start = 0
  while start < len(document):
    end, length = start, 0
    while end < len(document) and length < target:
      length += len(document[end])
      end += 1

    split = start + 1
    if end > split:
      split += below(rng.getrandbits, end - split)
    first = list(chain.from_iterable(document[start:split]))

    is_random = split == end or rng.random() < 0.5
    if is_random:
      second = _elsewhere(documents, index, target - len(first), rng)
      start = split
    else:
      second = list(chain.from_iterable(document[split:end]))
      start = end
    packing.truncate_pair_at_random(first, second, longest, rng)
    yield first, second, is_random


def _elsewhere(
  documents: list[Document], index: int, wanted: int, rng: Random
) -> list[int]:
  """Takes about `wanted` tokens from a random place of a random document.

  It may be the document itself, if ten draws in a row say so.
  """
  for _ in range(10):
    drawn = below(rng.getrandbits, len(documents))
    if drawn != index:
      break
  document = documents[drawn]
  text = []
  for i in range(below(rng.getrandbits, len(document)), len(document)):
    text += document[i]
    if len(text) >= wanted:
      break
  return text


class Builder:
  """Makes records of documents.

  Arguments:
    vocab: token to id, in the order of the vocabulary file; with [CLS], [SEP]
      and, unless pairs stay unmasked, [MASK].
    settings: what records are to be like.
  """

  def __init__(self, vocab: Mapping[str, int], settings: Settings):
    self._settings = settings
    self._cls, self._sep = vocab[CLS], vocab[SEP]
    self._mask = None
    if settings.masked:
      self._mask = StaticMasking(
        vocab,
        settings.max_predictions_per_seq,
        settings.masked_lm_prob,
        settings.whole_word,
        settings.mix,
      )

  def examples(
    self, documents: list[Document], index: int, rng: Random
  ) -> Iterator[dict[str, list]]:
    """Yields the examples of one document, fields by name as in the schema."""
    length = self._settings.max_seq_length
    slots = self._settings.max_predictions_per_seq
    for first, second, is_random in pairs(
      documents, index, rng, self._settings
    ):
      ids, segments = packing.join(first, second, self._cls, self._sep)
      targets = {}
      if self._mask:
        positions, labels = self._mask(ids, rng)
        targets = {
          "masked_lm_positions": packing.pad(positions, slots),
          "masked_lm_ids": packing.pad(labels, slots),
          "masked_lm_weights": packing.pad([1.0] * len(labels), slots),
        }
      yield {
        **packing.inputs(ids, segments, length),
        **targets,
        "next_sentence_labels": [int(is_random)],
      }

  def records(
    self,
    documents: list[Document],
    rng: Random,
    progress: Progress,
    show: Callable[[dict], None] = lambda example: None,
  ) -> list[bytes]:
    """Makes all records of the documents, in random order.

    Args:
      documents: shuffled in place.
      rng: source of randomness.
      progress: is told about documents and instances.
      show: is given every example.

    Returns:
      Serialized tf.train.Examples, since bytes need far less memory than
      lists.
    """
    if len(documents) == 1:
      logging.warning(
        "the text is a single document, so that random next sentences come "
        "from it too; put a blank line between documents"
      )
    encode = Encoder(self._settings.schema)
    shuffle(rng.getrandbits, documents)
    records = []
    for _ in range(self._settings.dupe_factor):
      for index in range(len(documents)):
        before = len(records)
        for example in self.examples(documents, index, rng):
          show(example)
          records.append(encode(example))
        progress.add(1, instances=len(records) - before)
    shuffle(rng.getrandbits, records)
    return records


class Samples:
  """Keeps the first few examples as text, to be looked at.

  Arguments:
    tokens: token by id.
    limit: how many.
  """

  def __init__(self, tokens: Mapping[int, str], limit: int = 3):
    self.texts: list[str] = []
    self._tokens, self._limit = tokens, limit

  def __call__(self, example: dict[str, list]) -> None:
    """Keeps an example, if it is one of the first."""
    if len(self.texts) >= self._limit:
      return
    length = sum(example["input_mask"])
    words = [self._tokens[i] for i in example["input_ids"][:length]]
    text = f"tokens: {' '.join(words)}"
    if "masked_lm_ids" in example:
      count = int(sum(example["masked_lm_weights"]))
      labels = [self._tokens[i] for i in example["masked_lm_ids"][:count]]
      positions = example["masked_lm_positions"][:count]
      text += f"\nmasked_lm_positions: {' '.join(map(str, positions))}"
      text += f"\nmasked_lm_labels: {' '.join(labels)}"
    is_random = bool(*example["next_sentence_labels"])
    self.texts.append(f"{text}\nis_random_next: {is_random}")


def log_samples(texts: list[str]) -> None:
  """Logs what Samples kept."""
  for text in texts:
    logging.info("*** Example ***\n%s", text)


def no_text(paths: list[str]) -> ValueError:
  """The error for an input without a single token."""
  return ValueError(f"there is no text in {', '.join(paths)}")
