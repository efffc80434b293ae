"""Makes pre-training records: sentence pairs with masked words.

Draws random numbers in the order of the original's create_pretraining_data.py,
so the same `random.Random` gives the same records. A document is a list of
segments (lines), a segment a list of token ids. shards.py splits large texts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from random import Random

from absl import logging

from data import features
from data.features import Masking
from data.pretraining import documents
from data.pretraining.documents import TextFormat
from data.vocab import Tokenizer
from storage import Progress, UserError, number_of, tfrecord
from storage.tfrecord import ExampleEncoder

Document = list[list[int]]  # ids of the tokens of each sentence


class StaticMasking:
  """Masks words of a sequence (section 3.1, task 1, of the paper)."""

  def __init__(self, tokenizer: Tokenizer, masking: Masking):
    self._masking = masking
    self._mask_token_prob = masking.mask_token_prob
    # Probability that a word stays unchanged if it does not become [MASK].
    # Rounding makes the default exactly 0.5, as in the original.
    rest = max(1.0 - self._mask_token_prob, 1e-9)
    self._keep_prob = round(1.0 - masking.random_token_prob / rest, 12)
    self._mask, self._sep = tokenizer.mask, tokenizer.sep
    ids = tokenizer.vocab
    self._all_ids = list(ids.values())
    self._continuations = {ids[t] for t in filter(tokenizer.continues, ids)}

  def __call__(
    self, ids: list[int], rng: Random
  ) -> tuple[list[int], list[int]]:
    """Masks `ids`, which include [CLS] and [SEP], in place.

    Returns the masked positions, ascending, and the original ids there.
    """
    random, getrandbits = rng.random, rng.getrandbits
    limit = max(1, round(len(ids) * self._masking.masked_lm_prob))
    limit = min(self._masking.max_predictions_per_seq, limit)
    middle = ids.index(self._sep)
    chosen = [*range(1, middle), *range(middle + 1, len(ids) - 1)]
    if self._masking.whole_word:
      words: list[list[int]] = []
      for position in chosen:
        if words and ids[position] in self._continuations:
          words[-1].append(position)
        else:
          words.append([position])
      shuffle(getrandbits, words)
      chosen = []
      for word in words:
        if len(chosen) + len(word) <= limit:
          chosen += word
    else:
      shuffle(getrandbits, chosen)

    labels = {}
    for position in chosen[:limit]:
      labels[position] = ids[position]
      if random() < self._mask_token_prob:
        ids[position] = self._mask
      elif random() >= self._keep_prob:
        drawn = randbelow(getrandbits, len(self._all_ids))
        ids[position] = self._all_ids[drawn]
    positions = sorted(labels)
    return positions, [labels[position] for position in positions]


def randbelow(getrandbits: Callable[[int], int], limit: int) -> int:
  """Like `Random.randrange(limit)`: same draws, same result, but faster."""
  bits = limit.bit_length()
  drawn = getrandbits(bits)
  while drawn >= limit:
    drawn = getrandbits(bits)
  return drawn


def shuffle(getrandbits: Callable[[int], int], items: list) -> None:
  """Like `Random.shuffle(items)`: same draws, same result, in half the time."""
  last = len(items) - 1
  while last > 0:
    bits = (last + 1).bit_length()
    # All i down to `first` draw the same number of bits.
    first = max((1 << bits - 1) - 1, 1)
    for i in range(last, first - 1, -1):
      drawn = getrandbits(bits)
      while drawn > i:
        drawn = getrandbits(bits)
      items[i], items[drawn] = items[drawn], items[i]
    last = first - 1


@dataclass(frozen=True)
class InstanceConfig:
  """Contents of records. If `masking` is None, training masks the records."""

  max_seq_length: int = 128  # 5 or more, three of them special tokens
  masking: Masking | None = field(default_factory=Masking)
  short_seq_prob: float = 0.1
  dupe_factor: int = 10


def sentence_pairs(
  corpus: list[Document], index: int, rng: Random, config: InstanceConfig
) -> Iterator[tuple[list[int], list[int], bool]]:
  """Splits a document into sentence pairs (section 3.1, task 2, of the paper).

  A "sentence" is a run of segments. Half of the second sentences follow the
  first sentence, and half are from random documents. The segments that a random
  sentence replaces begin the next pair. In some documents, all pairs aim at a
  random length below T = max_seq_length.

  Yields both sentences, T - 3 ids at most in all, and True for a random second.
  """
  document = corpus[index]
  max_tokens = config.max_seq_length - 3  # [CLS] a [SEP] b [SEP]
  target = max_tokens
  if rng.random() < config.short_seq_prob:
    target = 2 + randbelow(rng.getrandbits, max_tokens - 1)

  start = 0
  while start < len(document):
    end, length = start, 0
    while end < len(document) and length < target:
      length += len(document[end])
      end += 1

    split = start + 1
    if end > split:
      split += randbelow(rng.getrandbits, end - split)
    first = list(chain.from_iterable(document[start:split]))

    is_random = split == end or rng.random() < 0.5
    if is_random:
      second = _random_next_document(corpus, index, target - len(first), rng)
      start = split
    else:
      second = list(chain.from_iterable(document[split:end]))
      start = end
    truncate_pair_at_random(first, second, max_tokens, rng)
    yield first, second, is_random


def _random_next_document(
  corpus: list[Document], index: int, target: int, rng: Random
) -> list[int]:
  """Tokens of a random document: complete segments, from a random one on.

  Stops at `target` tokens or more, or at the end of the document.
  """
  for _ in range(10):  # all ten draws may give the document itself
    drawn = randbelow(rng.getrandbits, len(corpus))
    if drawn != index:
      break
  document = corpus[drawn]
  text = []
  for i in range(randbelow(rng.getrandbits, len(document)), len(document)):
    text += document[i]
    if len(text) >= target:
      break
  return text


def truncate_pair_at_random(
  first: list[int], second: list[int], limit: int, rng: Random
) -> None:
  """Like `features.truncate_pair`, but removes each token at a random end."""
  sizes, begins = [len(first), len(second)], [0, 0]
  for _ in range(sum(sizes) - limit):
    longer = 0 if sizes[0] > sizes[1] else 1
    sizes[longer] -= 1
    begins[longer] += rng.random() < 0.5
  # One slice is faster than a removal for each token.
  first[:] = first[begins[0] : begins[0] + sizes[0]]
  second[:] = second[begins[1] : begins[1] + sizes[1]]


@dataclass(frozen=True)
class BuildConfig:
  """Configuration of a data set, sent to every worker.

  `seed` and the number of a shard give the seed of the shard. `deduplicate`
  drops documents that are equal to an earlier document.
  """

  tokenizer: Tokenizer
  instance_config: InstanceConfig
  seed: int
  text_format: TextFormat = field(default_factory=TextFormat)
  deduplicate: bool = False


class RecordBuilder:
  """Builds records from texts. The vocabulary needs all special tokens."""

  def __init__(self, config: BuildConfig):
    self.config = config
    self._ids = config.tokenizer.cached_ids()
    self._ends = config.tokenizer.cls, config.tokenizer.sep
    masking = config.instance_config.masking
    self._mask = StaticMasking(config.tokenizer, masking) if masking else None

  def documents(
    self, lines: Iterable[str], progress: Progress
  ) -> list[Document]:
    """Tokenizes lines, one segment each. A blank line ends a document.

    Drops segments without tokens, and documents without segments. In prose,
    drops sentences of one token (page numbers, ornaments), and splits sentences
    longer than a record.
    """
    is_prose = self.config.text_format.is_prose
    least = 2 if is_prose else 1
    most = self.config.instance_config.max_seq_length
    corpus = []
    document: Document = []
    for line in lines:
      text = line.replace("\r", "").strip()  # as the original reads lines
      segment = self._ids(text) if text else []
      if is_prose and len(segment) > most:
        starts = range(0, len(segment), most)
        document += [segment[start : start + most] for start in starts]
        progress.add(0, cut_lines=1)
      elif len(segment) >= least:
        document.append(segment)
      elif text:
        progress.add(0, dropped_lines=1)
      elif document:
        corpus.append(document)
        document = []
      megabytes = (len(line.encode()) + 1) / 1e6
      progress.add(megabytes, lines=1, tokens=len(segment))
    if document:
      corpus.append(document)
    progress.add(0, documents=len(corpus), sentences=sum(map(len, corpus)))
    if len(corpus) == 1:
      progress.add(0, parts_of_one_document=1)
    return corpus

  def corpus(self, paths: Sequence[str], progress: Progress) -> list[Document]:
    """Reads the documents of files; ValueError for files without text."""
    lines = chain.from_iterable(map(self.config.text_format.lines, paths))
    if self.config.deduplicate:
      lines = documents.drop_documents(lines, progress)
    corpus = self.documents(lines, progress)
    if not corpus:
      raise no_text(paths)
    return corpus

  def examples(
    self, corpus: list[Document], rng: Random, progress: Progress
  ) -> Iterator[dict[str, list]]:
    """Shuffles the documents and yields examples: {field: values}."""
    config = self.config.instance_config
    length, padding = config.max_seq_length, self.config.tokenizer.pad
    shuffle(rng.getrandbits, corpus)
    for index in chain.from_iterable([range(len(corpus))] * config.dupe_factor):
      pairs = sentence_pairs(corpus, index, rng, config)
      for first, second, is_random in pairs:
        ids, segments = features.join(first, second, *self._ends)
        targets = {}
        if self._mask and config.masking:
          positions, labels = self._mask(ids, rng)
          slots = config.masking.max_predictions_per_seq
          targets = {
            "masked_lm_positions": features.pad(positions, slots),
            "masked_lm_ids": features.pad(labels, slots),
            "masked_lm_weights": features.pad([1.0] * len(labels), slots),
          }
        inputs = features.pad_inputs(ids, segments, length, padding)
        yield inputs | targets | {"next_sentence_labels": [int(is_random)]}
        progress.add(0, instances=1, random_next_sentences=is_random)
      progress.add(1)

  def records(
    self, corpus: list[Document], rng: Random, progress: Progress
  ) -> list[bytes]:
    """Serialized records in random order."""
    config = self.config.instance_config
    slots = config.masking.max_predictions_per_seq if config.masking else 0
    encode = ExampleEncoder(features.pretraining(config.max_seq_length, slots))
    records = list(map(encode, self.examples(corpus, rng, progress)))
    shuffle(rng.getrandbits, records)
    return records


def no_text(paths: Iterable[str]) -> UserError:
  return UserError(f"there is no text in {', '.join(paths)}")


def warn_of_single_documents(counts: Mapping[str, int], parts: int) -> None:
  """Warns of parts of a text that have no other document to draw from."""
  if number := counts.get("parts_of_one_document"):
    more = "; without workers, all text is one part" if parts > 1 else ""
    logging.warning(
      f"{number:,} of {number_of(parts, 'part')} of the text: one document, "
      f"also for random next sentences. Put blank lines between documents{more}"
    )


def write_in_memory(
  config: BuildConfig, inputs: Sequence[str], outputs: Sequence[str]
) -> int:
  """Reads all documents, then writes records; returns the number of records.

  A document may continue in the next input. Outputs get records round-robin.
  """
  builder = RecordBuilder(config)
  megabytes = sum(map(documents.text_size, inputs)) / 1e6
  reading = Progress("read", megabytes, "MB")
  corpus = builder.corpus(inputs, reading)
  reading.say()
  warn_of_single_documents(reading.counts, 1)
  number = len(corpus) * config.instance_config.dupe_factor
  building = Progress("built from", number, "copies of documents")
  records = builder.records(corpus, Random(config.seed), building)
  building.say()
  mark = config.tokenizer.fingerprint
  with ExitStack() as stack:  # files appear when all are complete
    sinks = [stack.enter_context(tfrecord.create(x, mark)) for x in outputs]
    for i, sink in enumerate(sinks):
      sink.write(records[i :: len(sinks)])
  return len(records)
