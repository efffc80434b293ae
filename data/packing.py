"""Fixed-length inputs of the encoder, as lists, from one or two texts."""

from collections.abc import Sequence
from random import Random


def pack(
  first: Sequence[int], second: Sequence[int] | None, cls: int, sep: int
) -> tuple[list[int], list[int]]:
  """Joins texts as [CLS] first [SEP], or [CLS] first [SEP] second [SEP].

  Args:
    first: token ids.
    second: token ids; None for a single text. (An empty text still gets [SEP].)
    cls: id of [CLS].
    sep: id of [SEP].

  Returns:
    Token ids and their segment ids.
  """
  ids = [cls, *first, sep]
  segments = [0] * len(ids)
  if second is not None:
    ids += second
    ids.append(sep)
    segments += [1] * (len(second) + 1)
  return ids, segments


def pad(values: Sequence[int], length: int) -> list[int]:
  """Appends zeros up to a length; raises ValueError if values are longer."""
  missing = length - len(values)
  if missing < 0:
    raise ValueError(f"{len(values)} values do not fit into {length}")
  return [*values, *[0] * missing]


def pad_inputs(
  ids: Sequence[int], segments: Sequence[int], seq_length: int
) -> dict[str, list[int]]:
  """The three inputs of the encoder, padded with zeros to [T] each."""
  return {
    "input_ids": pad(ids, seq_length),
    "input_mask": pad([1] * len(ids), seq_length),
    "segment_ids": pad(segments, seq_length),
  }


def truncate_pair(first: list[int], second: list[int], limit: int) -> None:
  """Truncates two texts in place to `limit` tokens together.

  Removes the last token of the longer text, of the second if both are equally
  long, until they fit (run_classifier.py of the original).
  """
  while len(first) + len(second) > limit:
    longer = first if len(first) > len(second) else second
    longer.pop()


def truncate_pair_at_random(
  first: list[int], second: list[int], limit: int, rng: Random
) -> None:
  """Truncates as `truncate_pair`, but at a random end of the longer text.

  Otherwise pre-training would see mostly beginnings of sentences
  (create_pretraining_data.py of the original).
  """
  spans = [[0, len(first)], [0, len(second)]]  # sliced once, which is faster
  sizes = [len(first), len(second)]
  for _ in range(sum(sizes) - limit):
    longer = 0 if sizes[0] > sizes[1] else 1
    sizes[longer] -= 1
    if rng.random() < 0.5:
      spans[longer][0] += 1
    else:
      spans[longer][1] -= 1
  for text, (begin, end) in zip((first, second), spans, strict=True):
    text[:] = text[begin:end]
