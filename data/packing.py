"""Token ids of one or two texts to the fixed-length inputs of the encoder.

Legend: T tokens. Lists throughout, as a tf.train.Example takes them.
"""

from collections.abc import Sequence
from random import Random


def join(
  first: Sequence[int], second: Sequence[int] | None, cls: int, sep: int
) -> tuple[list[int], list[int]]:
  """Joins texts as [CLS] first [SEP], or [CLS] first [SEP] second [SEP].

  Args:
    first: token ids.
    second: token ids; None for a single text. (An empty second text still gets
      its [SEP].)
    cls: id of [CLS].
    sep: id of [SEP].

  Returns:
    Token ids, and for each 0 if it is of the first segment or 1.
  """
  ids = [cls, *first, sep]
  segments = [0] * len(ids)
  if second is not None:
    ids += second
    ids.append(sep)
    segments += [1] * (len(second) + 1)
  return ids, segments


def pad(values: Sequence[int], length: int) -> list[int]:
  """Fills up with zeros.

  Raises:
    ValueError: there are more values than that.
  """
  missing = length - len(values)
  if missing < 0:
    raise ValueError(f"{len(values)} values do not fit into {length}")
  return [*values, *[0] * missing]


def inputs(
  ids: Sequence[int], segments: Sequence[int], seq_length: int
) -> dict[str, list[int]]:
  """The three inputs of the encoder, padded with zeros to [T] each."""
  return {
    "input_ids": pad(ids, seq_length),
    "input_mask": pad([1] * len(ids), seq_length),
    "segment_ids": pad(segments, seq_length),
  }


def truncate_pair(first: list[int], second: list[int], limit: int) -> None:
  """Shortens two texts in place to `limit` tokens together.

  Takes the last token of the longer one, of the second where both are equally
  long, until they fit: a short text keeps more of its words that way than if
  both lost the same share (run_classifier.py of the original).
  """
  while len(first) + len(second) > limit:
    longer = first if len(first) > len(second) else second
    longer.pop()


def truncate_pair_at_random(
  first: list[int], second: list[int], limit: int, rng: Random
) -> None:
  """Shortens as `truncate_pair` does, but at front or back by a coin each time.

  Keeps pre-training from seeing mostly beginnings of sentences
  (create_pretraining_data.py of the original).
  """
  kept = [[0, len(first)], [0, len(second)]]  # begin and end, cut at the end:
  sizes = [len(first), len(second)]  # to take tokens out one by one takes long
  for _ in range(sum(sizes) - limit):
    longer = 0 if sizes[0] > sizes[1] else 1
    sizes[longer] -= 1
    if rng.random() < 0.5:
      kept[longer][0] += 1
    else:
      kept[longer][1] -= 1
  for text, (begin, end) in zip((first, second), kept, strict=True):
    text[:] = text[begin:end]
