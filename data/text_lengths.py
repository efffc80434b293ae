"""Logs how many texts are longer than a row."""

from collections.abc import Mapping

from absl import logging

from storage import setting
from storage.progress import number_of

_LENGTHS = (16, 32, 64, 128, 256, 384, 512)  # to suggest
_FITS = 0.99  # of the texts, for a length to be suggested
_MANY = 0.05  # of the texts, for a warning


def log_lengths(
  name: str,
  lengths: Mapping[int, int],
  max_length: int,
  effect: str = "their ends are cut off",
  flag: str = "max_seq_length",
) -> None:
  """Logs how many texts are longer than `max_length`; warns from 5 % on.

  `lengths` has the number of texts by length in tokens. `effect` says what
  happens to longer texts, and `flag` names the setting of `max_length`.
  """

  def longer_than(limit):
    return sum(n for length, n in lengths.items() if length > limit)

  total, longer = sum(lengths.values()), longer_than(max_length)
  if not longer:
    return
  larger = [n for n in _LENGTHS if n > max_length and longer_than(n) < longer]
  advice = ""
  if larger:
    fitting = [n for n in larger if longer_than(n) <= (1 - _FITS) * total]
    best = min(*fitting, larger[-1], max(lengths))
    held = 100 * (1 - longer_than(best) / total)
    advice = f"; {setting(flag, best)} would hold {held:.1f} %"
  logging.log(
    logging.WARNING if longer >= _MANY * total else logging.INFO,
    f"{name}: {setting(flag, max_length)} is exceeded by {longer:,} of "
    f"{number_of(total, 'text')} ({100 * longer / total:.1f} %): {effect}; the "
    f"longest has {max(lengths):,} tokens{advice}",
  )
