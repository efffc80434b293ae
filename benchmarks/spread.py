"""Results of several seeds as one cell of a table."""

import statistics
from collections.abc import Sequence


def mean_and_spread(values: Sequence[float], digits: int = 1) -> str:
  """Mean ± standard deviation; "-" if there are no values."""
  text = f"{statistics.mean(values):.{digits}f}" if values else "-"
  if len(values) > 1:
    text += f" ± {statistics.stdev(values):.{digits}f}"
  return text
