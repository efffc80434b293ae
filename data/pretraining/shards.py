"""Makes pre-training records of files in shards, or previews records.

The shards depend only on the input. Worker processes turn shards into temporary
files, which the parent joins in order.
"""

import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from random import Random
from tempfile import TemporaryDirectory

from absl import logging

from data.features import Masking
from data.pretraining import documents, instances
from data.pretraining.documents import Shard, TextFormat, split_corpus
from data.pretraining.instances import BuildConfig, RecordBuilder
from storage import Progress, files, tfrecord
from storage.processes import ordered_map


def build_shard(
  builder: RecordBuilder, shard: Shard
) -> tuple[list[bytes], Mapping[str, int]]:
  """Returns a shard's records, and counts of "documents", "instances" etc."""
  config = builder.config
  progress = Progress("", 0, "", log=lambda text: None)
  lines = shard.lines(config.text_format)
  if shard.dropped:
    lines = documents.drop_documents(lines, progress, set(shard.dropped))
  corpus = builder.documents(lines, progress)
  rng = Random(f"{config.seed} {shard.number}")
  return builder.records(corpus, rng, progress), progress.counts


def write_shards(
  config: BuildConfig, paths: list[str], outputs: list[str], processes: int
) -> int:
  """Writes records in worker processes, round-robin over the outputs.

  Returns the number of records. Raises ValueError if files hold no text or are
  not UTF-8, ChildProcessError if a worker died.
  """
  shards = split_corpus(paths, config.text_format)
  processes = min(processes, len(shards))
  logging.info("%d workers, %d shards of text", processes, len(shards))
  if config.deduplicate:
    shards = _mark_duplicates(shards, config.text_format, processes)
  progress = Progress("built from", sum(s.megabytes for s in shards), "MB")
  near, name = os.path.split(os.path.realpath(outputs[0]))
  near = None if files.is_remote(outputs[0]) else near
  prefix, mark = f"{name}.parts-", config.tokenizer.fingerprint
  with ExitStack() as stack:
    sinks = [stack.enter_context(tfrecord.create(x, mark)) for x in outputs]
    folder = stack.enter_context(TemporaryDirectory(prefix=prefix, dir=near))
    prepare = partial(_shard_writer, config, folder)
    results = ordered_map(prepare, shards, processes)
    stack.enter_context(closing(results))  # closed before `folder` is removed
    for shard, (part, sizes, counts) in zip(shards, results, strict=True):
      written = progress.counts["instances"]
      with open(part, "rb") as file:
        for i, size in enumerate(sizes, written):  # go on round-robin
          sinks[i % len(sinks)].append(file.read(size))
      os.remove(part)
      progress.add(shard.megabytes, **counts)
    if not progress.counts["instances"]:
      raise instances.no_text(paths)
  progress.say()
  instances.warn_of_single_documents(progress.counts, len(shards))
  return progress.counts["instances"]


def _shard_writer(
  config: BuildConfig, folder: str
) -> Callable[[Shard], tuple[str, array, Mapping[str, int]]]:
  """Makes a function that writes the framed records of a shard to a file.

  The function returns the path of the file in `folder`, the size of each frame,
  and the counts of `build_shard`.
  """
  builder = RecordBuilder(config)

  def write(shard):
    records, counts = build_shard(builder, shard)
    frames = [*map(tfrecord.frame, records)]
    path = f"{folder}/{shard.number}"
    with open(path, "wb") as file:
      file.writelines(frames)
    return path, array("L", map(len, frames)), counts

  return write


def _mark_duplicates(
  shards: list[Shard], text_format: TextFormat, processes: int
) -> list[Shard]:
  """Sets Shard.dropped to the documents that repeat an earlier document."""
  progress = Progress("compared", sum(s.megabytes for s in shards), "MB")
  # Each worker calls `prepare` once, and gets the function of a shard.
  prepare = partial(partial, digests, text_format)
  results = ordered_map(prepare, shards, processes)
  seen: set[int] = set()
  marked = []
  for shard, numbers in zip(shards, results, strict=True):
    dropped = []
    for index, number in enumerate(numbers):
      if number in seen:
        dropped.append(index)
      seen.add(number)
    marked.append(shard._replace(dropped=tuple(dropped)))
    progress.add(shard.megabytes, documents=len(numbers))
  progress.say()
  return marked


def digests(text_format: TextFormat, shard: Shard) -> array:
  """Hash of each document of a shard, 64 bits."""
  parts = documents.split_documents(shard.lines(text_format))
  return array("Q", map(documents.digest, parts))


# --- Previews ----------------------------------------------------------------


def preview(
  config: BuildConfig,
  inputs: Sequence[str],
  number: int,
  masking: Masking,
  objective: str = "mlm",
) -> Iterator[str]:
  """Yields lines about the first `number` instances, then counts over all.

  Instances have the order in which write_in_memory makes instances. Targets are
  as in training: next tokens if `objective` is a direction, otherwise masked
  tokens. If the records have no masks, `masking` draws masks.
  """
  is_causal = objective != "mlm"
  mask, tokens = config.tokenizer.special.mask, config.tokenizer.inv_vocab
  builder, draw_masks = RecordBuilder(config), None
  if not (is_causal or config.instance_config.masking):
    draw = instances.StaticMasking(config.tokenizer, masking)
    draw_masks = partial(draw, rng=Random(config.seed))
  progress = Progress("", 0, "", log=lambda text: None)
  corpus = builder.corpus(inputs, progress)
  counts = progress.counts
  counts.clear()  # from here on, the counts of the instances
  examples = builder.examples(corpus, Random(config.seed), progress)
  for count, example in enumerate(examples, 1):
    targets = _targets(example, objective, draw_masks)
    if count <= number:
      yield from _describe(count, example, targets, tokens, is_causal)
    counts["tokens"] += sum(example["input_mask"])
    for _, shown, label in targets:
      is_mask = tokens[shown] == mask
      counts["mask" if is_mask else "same" if shown == label else "other"] += 1

  def part(name, total):
    return f"{counts[name]:,} ({counts[name] / max(counts[total], 1):.1%})"

  counts["next"] = counts["instances"] - counts["random_next_sentences"]
  counts["targets"] = counts["mask"] + counts["other"] + counts["same"]
  pairs = f"{part('next', 'instances')} with the next sentence, "
  pairs += f"{part('random_next_sentences', 'instances')} with a random one"
  yield f"{counts['instances']:,} instances: {pairs}"
  masks = f"{part('mask', 'targets')} as {mask}, {part('other', 'targets')} as "
  masks += f"a random token, {part('same', 'targets')} unchanged"
  text = "predict the next one" if is_causal else f"are predicted: {masks}"
  yield f"{part('targets', 'tokens')} of {counts['tokens']:,} tokens {text}"


def _targets(example, objective, draw_masks) -> list[tuple[int, int, int]]:
  """Lists position, shown id and target id of each target.

  Cuts the padding off the `input_ids` of `example`.
  """
  size = sum(example["input_mask"])
  ids = example["input_ids"] = example["input_ids"][:size]
  names = "masked_lm_positions", "masked_lm_ids", "masked_lm_weights"
  rows = zip(*(example.get(name, ()) for name in names), strict=True)
  masks = [(i, label) for i, label, weight in rows if weight]
  if draw_masks:
    masks = list(zip(*draw_masks(ids), strict=True))
  if objective == "mlm":
    return [(i, ids[i], label) for i, label in masks]
  for i, label in masks:
    ids[i] = label
  step = 1 if objective == "left_to_right" else -1
  within = range(max(0, -step), size - max(0, step))
  return [(i, ids[i], ids[i + step]) for i in within]


def _describe(number, example, targets, tokens, is_causal):
  """Yields lines about an instance: its sentences, then its targets."""
  size = sum(example["input_mask"])
  is_random = example["next_sentence_labels"][0]
  second = "a random one" if is_random else "the next one"
  yield f"Instance {number}: {size} tokens, the second sentence is {second}"
  rows = [*zip(example["input_ids"], example["segment_ids"], strict=False)]
  for segment in (0, 1):
    text = [tokens[index] for index, own in rows if own == segment]
    yield f"  {' '.join(text)}"
  title = "predicts" if is_causal else "replaced by"
  yield f"  {'position':>8}  {'token':<16}  {title}"
  for position, shown, label in targets:
    pair = tokens[label], "(unchanged)" if shown == label else tokens[shown]
    if is_causal:
      pair = tokens[shown], tokens[label]
    yield f"  {position:>8}  {pair[0]:<16}  {pair[1]}"
  yield ""
