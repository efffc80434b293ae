"""Settings of run_rating.py."""

from dataclasses import dataclass

from cli.settings import COMMON, flag
from runs.settings import EvaluatedFineTuning


@dataclass(frozen=True, kw_only=True)
class Settings(EvaluatedFineTuning):
  """Flags of run_rating.py."""

  train_file: str | None = flag(None, "Table to train on.", group=COMMON)
  dev_file: str | None = flag(
    None, "Table to evaluate on.", group=COMMON, training=False
  )
  test_file: str | None = flag(
    None,
    "Table to predict; ratings are optional.",
    group=COMMON,
    training=False,
  )
  max_seq_length: int = flag(
    128, "Maximum number of tokens.", minimum=3, group=COMMON
  )
