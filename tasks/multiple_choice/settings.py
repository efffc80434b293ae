"""Settings of run_swag.py."""

from dataclasses import dataclass

from cli.settings import common, device
from runs.settings import Packing
from runs.task_settings import EvaluatedFineTuning, Tables


@dataclass(frozen=True, kw_only=True)
class Settings(Tables, EvaluatedFineTuning, Packing):
  """Flags of run_swag.py."""

  train_file: str | None = common(None, "Table to train on.")
  dev_file: str | None = common(None, "Table to evaluate on.", training=False)
  test_file: str | None = common(
    None, "Table to predict; labels are optional.", training=False
  )
  max_seq_length: int = common(128, "Maximum tokens of a choice.", minimum=5)
  num_workers: int = device(
    1, "Number of processes that tokenize.", minimum=1, training=False
  )
