"""Pre-training instances as text: tokens, targets, next sentence; counts."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random

from data.pretraining.builders import BuildConfig, RecordBuilder
from data.vocab import MASK
from storage.progress import Progress

_BATCH_SIZE = 64


def lines(
  config: BuildConfig,
  inputs: Sequence[str],
  number: int,
  finish: Callable[[Mapping], Mapping] | None = None,
  is_causal: bool = False,
) -> Iterator[str]:
  """Yields lines about the first `number` instances, then counts of all.

  The instances are those of builders.write_in_memory, before they are shuffled.
  `finish` masks a batch or makes its targets, as when records are read;
  `is_causal` says that targets are next tokens.
  """
  builder = RecordBuilder(config)
  progress = Progress("", 0, "", log=lambda text: None)
  corpus = builder.corpus(inputs, progress)
  examples = builder.examples(corpus, Random(config.seed), progress)
  if finish:
    examples = _finished(examples, finish)
  tokens = {index: token for token, index in builder.vocab.items()}
  counts: Counter[str] = Counter()
  for count, example in enumerate(examples):
    if count < number:
      yield from _instance(count + 1, example, tokens)
      yield from _target_lines(example, tokens, is_causal)
      yield ""
    counts["instances"] += 1
    counts["random"] += example["next_sentence_labels"][0]
    counts["tokens"] += sum(example["input_mask"])
    for position, label in _targets(example):
      index = example["input_ids"][position]
      unmasked = "same" if index == label else "other"
      counts["mask" if index == builder.vocab[MASK] else unmasked] += 1
  yield from _totals(counts, is_causal)


def _finished(examples: Iterable[Mapping], finish) -> Iterator[dict]:
  """Examples of batches that `finish` has changed."""
  examples = iter(examples)
  while batch := [*islice(examples, _BATCH_SIZE)]:
    columns = {name: [row[name] for row in batch] for name in batch[0]}
    columns = finish(columns)
    for i in range(len(batch)):
      yield {name: values[i].tolist() for name, values in columns.items()}


def _targets(example):
  """Positions and ids of the tokens to predict."""
  names = "masked_lm_positions", "masked_lm_ids", "masked_lm_weights"
  rows = zip(*(example[name] for name in names), strict=True)
  return [(position, label) for position, label, weight in rows if weight]


def _instance(number, example, tokens):
  size = sum(example["input_mask"])
  is_random = example["next_sentence_labels"][0]
  second = "a random one" if is_random else "the next one"
  yield f"Instance {number}: {size} tokens, the second sentence is {second}"
  rows = zip(example["input_ids"], example["segment_ids"], strict=True)
  texts = {0: [], 1: []}
  for index, segment in list(rows)[:size]:
    texts[segment].append(tokens[index])
  yield from (f"  {' '.join(text)}" for text in texts.values() if text)


def _target_lines(example, tokens, is_causal):
  """Lines of tokens with what replaces them, or with the one they predict."""
  title = "predicts" if is_causal else "replaced by"
  yield f"  {'position':>8}  {'token':<16}  {title}"
  for position, label in _targets(example):
    index = example["input_ids"][position]
    pair = tokens[label], "(unchanged)" if index == label else tokens[index]
    if is_causal:
      pair = tokens[index], tokens[label]
    yield f"  {position:>8}  {pair[0]:<16}  {pair[1]}"


def _totals(counts, is_causal):
  def part(name, total):
    return f"{counts[name]:,} ({counts[name] / max(total, 1):.1%})"

  instances = counts["instances"]
  counts["next"] = instances - counts["random"]
  yield (
    f"{instances:,} instances: {part('next', instances)} with the next "
    f"sentence, {part('random', instances)} with a random one"
  )
  counts["targets"] = counts["mask"] + counts["other"] + counts["same"]
  targets = part("targets", counts["tokens"])
  if is_causal:
    yield f"{targets} of {counts['tokens']:,} tokens predict the next one"
    return
  yield (
    f"{targets} of {counts['tokens']:,} tokens are predicted: "
    f"{part('mask', counts['targets'])} as {MASK}, "
    f"{part('other', counts['targets'])} as a random token, "
    f"{part('same', counts['targets'])} unchanged"
  )
