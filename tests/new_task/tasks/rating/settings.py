"""Settings of run_rating.py."""

from dataclasses import dataclass

from cli.settings import common
from runs.task_settings import EvaluatedFineTuning


@dataclass(frozen=True, kw_only=True)
class Settings(EvaluatedFineTuning):
  """Flags of run_rating.py."""

  train_file: str | None = common(None, "Table to train on.")
  dev_file: str | None = common(None, "Table to evaluate on.", training=False)
  test_file: str | None = common(
    None, "Table to predict; ratings are optional.", training=False
  )
  max_seq_length: int = common(128, "Maximum number of tokens.", minimum=3)
