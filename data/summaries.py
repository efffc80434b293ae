"""Summaries of the examples of a file, logged before training."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

from absl import logging

_SHOWN = 20  # labels
_FITS = 0.99  # of the texts, for a length to be suggested
_LENGTHS = (16, 32, 64, 128, 256, 384, 512)


def log_labels(
  name: str,
  labels: Iterable[str],
  expected: Collection[str] = (),
  unit: str = "example",
) -> None:
  """Logs the frequencies of the labels of a file's examples (`unit`).

  Logs a warning of expected labels that do not occur, and of labels that differ
  only in case or blanks.
  """
  counts = Counter(labels)
  total = counts.total()
  shown = [
    f"{label}: {number:,} ({100 * number / total:.1f} %)"
    for label, number in counts.most_common(_SHOWN)
  ]
  if len(counts) > _SHOWN:
    *_, (rarest, number) = counts.most_common()
    shown.append(f"...; {len(counts)} in all, the rarest {rarest}: {number:,}")
  logging.info("%s: %s; %s", name, number_of(total, unit), ", ".join(shown))
  missing = [label for label in expected if label not in counts]
  if missing:
    logging.warning("%s: no example of %s", name, _some(missing))
  groups = [
    " and ".join(f"{label!r} ({counts[label]:,})" for label in group)
    for group in similar(counts)
  ]
  if groups:
    logging.log_first_n(  # for the training file, not for each file
      logging.WARNING,
      "%s: %s differ only in case or blanks and are labels of their own; "
      "spell them alike if they mean the same",
      1,
      *(name, "; ".join(groups)),
    )


def number_of(number: int, noun: str) -> str:
  """A number with its noun, as in "1 word" or "2,000 words"."""
  return f"{number:,} {noun}" + ("s" if number != 1 else "")


def similar(labels: Iterable[str]) -> list[list[str]]:
  """Groups of two or more labels that differ only in case or blanks."""
  groups = defaultdict(list)
  for label in sorted(labels):
    groups["".join(label.split()).casefold()].append(label)
  return [group for group in groups.values() if len(group) > 1]


def log_lengths(
  name: str,
  lengths: Mapping[int, int],
  max_seq_length: int,
  effect: str = "their ends are cut off",
) -> None:
  """Logs the number of texts longer than --max_seq_length.

  It is a warning from 5 % of the texts.

  Args:
    name: of the file.
    lengths: number of texts by length in tokens, including [CLS] and [SEP].
    max_seq_length: the flag.
    effect: on these texts, for the message.
  """
  total = sum(lengths.values())
  longer = _longer(lengths, max_seq_length)
  if not longer:
    return
  larger = [
    length
    for length in _LENGTHS
    if length > max_seq_length and _longer(lengths, length) < longer
  ]
  fitting = (n for n in larger if _longer(lengths, n) <= (1 - _FITS) * total)
  best = next(fitting, larger[-1] if larger else None)
  advice = ""
  if best:
    held = 100 * (1 - _longer(lengths, best) / total)
    advice = f"; --max_seq_length={best} would hold {held:.1f} %"
  level = logging.WARNING if longer >= 0.05 * total else logging.INFO
  logging.log(
    level,
    "%s: --max_seq_length=%d is exceeded by %s of %s (%.1f %%): %s; the "
    "longest has %s tokens%s",
    name,
    max_seq_length,
    f"{longer:,}",
    number_of(total, "text"),
    100 * longer / total,
    effect,
    f"{max(lengths):,}",
    advice,
  )


def _longer(lengths, limit):
  return sum(number for length, number in lengths.items() if length > limit)


def _some(labels):
  more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
  return ", ".join(map(repr, labels[:_SHOWN])) + more
