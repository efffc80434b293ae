"""Results of several seeds or rounds as cells of a table."""

import statistics
from collections.abc import Sequence


def mean_and_spread(values: Sequence[float], digits: int = 1) -> str:
  """Mean ± standard deviation; "-" if there are no values."""
  text = f"{statistics.mean(values):.{digits}f}" if values else "-"
  if len(values) > 1:
    text += f" ± {statistics.stdev(values):.{digits}f}"
  return text


def ratios(
  theirs: Sequence[float], ours: Sequence[float], digits: int = 2
) -> tuple[str, str]:
  """Theirs over ours, round by round: the median, and the range."""
  found = [one / other for one, other in zip(theirs, ours, strict=True)]
  low, middle, high = min(found), statistics.median(found), max(found)
  return f"{middle:.{digits}f}", f"{low:.{digits}f}-{high:.{digits}f}"
