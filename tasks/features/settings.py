"""Settings of extract_features.py."""

from dataclasses import dataclass

from cli.settings import common, flag, original
from modeling.config import POOLINGS
from runs.settings import ServedEncoder
from runs.task_settings import LongText


@dataclass(frozen=True, kw_only=True)
class Settings(LongText, ServedEncoder):
  """Flags of extract_features.py."""

  input_file: str | None = common(None, "File with one text per line.")
  output_file: str | None = common(None, "File to write.")
  layers: str = common(
    "-1,-2,-3,-4",
    "Layers to extract: 0 is the first, -1 the last. Default: four, or fewer.",
    dependent=True,
  )
  overwrite: bool = common(False, "Replace --output_file.")
  batch_size: int = original(32, "Batch size for prediction.", minimum=1)
  use_one_hot_embeddings: bool = original(False, "Embed by matmul, for TPUs.")
  pooling: str = flag(
    "none",
    "none: vectors of tokens. mean: average over all tokens, with [CLS] and "
    "[SEP]. cls: vector of [CLS]. An export has the mean by default, and "
    "without windows always the vectors of tokens.",
    choices=POOLINGS,
  )
  format: str = flag(
    "json",
    "JSON lines, or NumPy arrays (tasks/features/lines.py).",
    choices=("json", "npz"),
  )
