"""Shows pre-training instances as text before any record is written."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random

from data.pretraining.instances import BuildConfig, Masking, RecordBuilder
from storage import Progress, num_wide

_BATCH_SIZE = 64


def preview(
  config: BuildConfig,
  inputs: Sequence[str],
  number: int,
  masking: Masking,
  objective: str = "mlm",
) -> Iterator[str]:
  """Yields lines about the first `number` instances, then counts of all.

  Instances have the order of write_in_memory before shuffling. Targets are what
  training would make: next tokens if `objective` is a direction, otherwise
  masks, drawn by `masking` if the records have none.
  """
  is_causal = objective != "mlm"
  if not is_causal:
    config.tokenizer.check()
  mask, tokens = config.tokenizer.special.mask, config.tokenizer.inv_vocab
  builder = RecordBuilder(config)
  progress = Progress("", 0, "", log=lambda text: None)
  corpus = builder.corpus(inputs, progress)
  examples: Iterator[Mapping]
  examples = builder.examples(corpus, Random(config.seed), progress)
  if is_causal or not config.instance_config.masking:
    examples = with_targets(examples, config, masking, objective)
  counts: Counter[str] = Counter()
  names = "masked_lm_positions", "masked_lm_ids", "masked_lm_weights"
  for count, example in enumerate(examples, 1):
    rows = zip(*(example[name] for name in names), strict=True)
    ids = example["input_ids"]
    targets = [(i, ids[i], label) for i, label, weight in rows if weight]
    if count <= number:
      yield from _describe(count, example, targets, tokens, is_causal)
    counts["instances"] += 1
    counts["random"] += example["next_sentence_labels"][0]
    counts["tokens"] += sum(example["input_mask"])
    for _, shown, label in targets:
      is_mask = tokens[shown] == mask
      counts["mask" if is_mask else "same" if shown == label else "other"] += 1
  yield from _totals(counts, mask, is_causal)


def with_targets(
  examples: Iterable[Mapping],
  config: BuildConfig,
  masking: Masking,
  objective: str,
) -> Iterator[Mapping]:
  """Yields examples with the targets that training would make."""
  import tensorflow as tf  # noqa: PLC0415

  from data.pretraining import input_pipeline  # noqa: PLC0415

  seeds = tf.random.Generator.from_seed(config.seed)
  if objective == "mlm":
    masker = input_pipeline.Masker(config.tokenizer, masking)
  else:
    causal = input_pipeline.CausalTargets(objective)
  examples = iter(examples)
  while rows := [*islice(examples, _BATCH_SIZE)]:
    batch = {name: tf.constant([r[name] for r in rows]) for name in rows[0]}
    if objective == "mlm":
      batch = masker(batch, seeds.uniform([2], 0, 2**31 - 1, tf.int32))
    else:
      batch = causal(batch)
    columns = {name: values.numpy() for name, values in batch.items()}
    for i in range(len(rows)):
      yield {name: values[i].tolist() for name, values in columns.items()}


def _describe(number, example, targets, tokens, is_causal):
  """An instance in lines: its sentences, then its targets."""
  size = sum(example["input_mask"])
  is_random = example["next_sentence_labels"][0]
  second = "a random one" if is_random else "the next one"
  yield f"Instance {number}: {size} tokens, the second sentence is {second}"
  rows = zip(example["input_ids"], example["segment_ids"], strict=True)
  texts = {0: [], 1: []}
  for index, segment in list(rows)[:size]:
    texts[segment].append(tokens[index])
  yield from (f"  {' '.join(text)}" for text in texts.values() if text)
  title = "predicts" if is_causal else "replaced by"
  yield f"  {'position':>8}  {'token':<16}  {title}"
  for position, shown, label in targets:
    pair = tokens[label], "(unchanged)" if shown == label else tokens[shown]
    if is_causal:
      pair = tokens[shown], tokens[label]
    blanks = " " * (16 - len(pair[0]) - num_wide(pair[0]))
    yield f"  {position:>8}  {pair[0]}{blanks}  {pair[1]}"
  yield ""


def _totals(counts, mask, is_causal):
  def part(number, total):
    return f"{number:,} ({number / max(total, 1):.1%})"

  instances, random = counts["instances"], counts["random"]
  yield (
    f"{instances:,} instances: {part(instances - random, instances)} with the "
    f"next sentence, {part(random, instances)} with a random one"
  )
  targets = counts["mask"] + counts["other"] + counts["same"]
  text = f"{part(targets, counts['tokens'])} of {counts['tokens']:,} tokens"
  if is_causal:
    yield f"{text} predict the next one"
  else:
    yield (
      f"{text} are predicted: {part(counts['mask'], targets)} as {mask}, "
      f"{part(counts['other'], targets)} as a random token, "
      f"{part(counts['same'], targets)} unchanged"
    )
