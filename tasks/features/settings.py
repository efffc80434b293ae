"""Settings of extract_features.py."""

from dataclasses import dataclass

from cli.settings import COMMON, ORIGINAL, flag
from modeling.config import POOLINGS
from runs.settings import LongText, ServedEncoder


@dataclass(frozen=True, kw_only=True)
class Settings(LongText, ServedEncoder):
  """Flags of extract_features.py."""

  input_file: str | None = flag(
    None, "File with one text per line.", group=COMMON
  )
  output_file: str | None = flag(None, "File to write.", group=COMMON)
  layers: str = flag(
    "-1,-2,-3,-4",
    "Layers to extract: 0 is the first, -1 the last. Default: four, or fewer.",
    group=COMMON,
  )
  overwrite: bool = flag(False, "Replace --output_file.", group=COMMON)
  batch_size: int = flag(
    32, "Batch size for prediction.", minimum=1, group=ORIGINAL
  )
  use_one_hot_embeddings: bool = flag(
    False, "Embed by matmul, for TPUs.", group=ORIGINAL
  )
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
