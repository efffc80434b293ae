"""Settings of run_swag.py."""

from dataclasses import dataclass

from cli.settings import COMMON, DEVICES, flag
from runs.settings import EvaluatedFineTuning


@dataclass(frozen=True, kw_only=True)
class Settings(EvaluatedFineTuning):
  """Flags of run_swag.py."""

  train_file: str | None = flag(None, "Table to train on.", group=COMMON)
  dev_file: str | None = flag(
    None, "Table to evaluate on.", group=COMMON, training=False
  )
  test_file: str | None = flag(
    None,
    "Table to predict; labels are optional.",
    group=COMMON,
    training=False,
  )
  max_seq_length: int = flag(
    128, "Maximum tokens of a choice.", minimum=5, group=COMMON
  )
  num_workers: int = flag(
    1,
    "Number of processes that tokenize.",
    minimum=1,
    group=DEVICES,
    training=False,
  )
