"""Settings and files of extract_features.py: lines of text -> activations.

A line has one text or two, "text_a ||| text_b", and becomes one sequence of
tokens. The output has the original's JSON lines, or NumPy arrays. For N lines
with M tokens in all, the arrays are `layers` [L], `values` [M, L, H] float32,
`input_ids` [M] and `offsets` [N + 1]. Line i has the values from offsets[i] to
before offsets[i + 1]. With pooling, the arrays are `layers` and `vectors`
[N, L, H].
"""

import json
import os
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, BinaryIO, cast

import numpy as np
from absl import logging

from cli.settings import common, flag, original
from data import features
from data.features import Row, RowEncoder
from data.write_records import log_lengths
from modeling.config import POOLINGS, BertConfig
from runs.settings import ServedEncoder
from runs.task_settings import LongText
from storage import UserError, files, textfiles

# Separates the texts of a line.
SEPARATOR = " ||| "
_LAST_FOUR = "-1,-2,-3,-4"  # layers


@dataclass(frozen=True, kw_only=True)
class Settings(LongText, ServedEncoder):
  """Flags of extract_features.py."""

  input_file: str | None = common(None, "File with one text per line.")
  output_file: str | None = common(None, "File to write.")
  layers: str = common(
    _LAST_FOUR,
    "Layers to extract: 0 is the first, -1 the last. Default: the last four.",
  )
  overwrite: bool = common(False, "Replace --output_file.")
  batch_size: int = original(32, "Batch size for prediction.", minimum=1)
  use_one_hot_embeddings: bool = original(False, "Embed by matmul, for TPUs.")
  pooling: str = flag(
    "none",
    "none: vectors of tokens. mean: average over all tokens, with [CLS] and "
    "[SEP]. cls: vector of [CLS]. An export has the mean by default. Without "
    "--long_text=windows, an export also has the vectors of tokens.",
    choices=POOLINGS,
  )
  format: str = flag(
    "json",
    "JSON lines, or NumPy arrays (tasks/features/lines.py).",
    choices=("json", "npz"),
  )


# A line and its activations, [T, L, H], or [L, H] for one vector per line.
Result = tuple[Row, np.ndarray]


def layer_indexes(settings: Settings, config: BertConfig) -> list[int]:
  """Parses --layers; ValueError if an index is not a number.

  The default leaves out layers that a small model lacks.
  """
  numbers = settings.layers.split(",")
  if settings.layers == _LAST_FOUR:
    numbers = numbers[: config.num_hidden_layers]
  try:
    return [int(number) for number in numbers]
  except ValueError:
    raise UserError(
      f"--layers={settings.layers}: give numbers with commas between them, as "
      "in -1,-2"
    ) from None


def split(text: str) -> tuple[str, str | None]:
  """Splits a line at the last separator; without one, returns (text, None)."""
  first, separator, second = text.strip().rpartition(SEPARATOR)
  return (first, second) if separator else (second, None)


def count(path: str, has_windows: bool = False) -> int:
  """Number of lines; OSError or ValueError for an empty or invalid file."""
  number = 0
  if path.endswith((".csv", ".tsv", ".json", ".jsonl")):
    logging.warning("%s: a line is a text, with all columns or keys", path)
  for number, text in enumerate(textfiles.lines(path), 1):
    if has_windows and split(text)[1] is not None:
      raise UserError(
        f"{path}, line {number} has two texts: --long_text=windows takes one"
      )
  if not number:
    text = f"{path} is empty, or a pipe: give a file of texts, a line each"
    raise UserError(text)
  return number


def read_lines(settings: Settings) -> Iterator[Row]:
  """Yields the tokens of --input_file; cuts the longer of two texts first."""
  path, max_length = settings.needed("input_file"), settings.row_length
  encoder = RowEncoder(settings.tokenizer, max_length)
  lengths: Counter[int] = Counter()
  for text in textfiles.lines(path):
    row = encoder.encode(*split(text))
    lengths[row.length] += 1
    yield row
  log_lengths(path, lengths, max_length, flag=settings.row_length_flag)


def chunks(lines: Iterable[Row], max_tokens: int) -> Iterator[list[Row]]:
  """Groups lines; a chunk ends with the line that reaches `max_tokens`."""
  chunk: list[Row] = []
  tokens = 0
  for line in lines:
    chunk.append(line)
    tokens += len(line.ids)
    if tokens >= max_tokens:
      yield chunk
      chunk, tokens = [], 0
  if chunk:
    yield chunk


def batches(
  chunk: Sequence[Row], batch_size: int, max_seq_length: int, multiple: int
) -> Iterator[tuple[list[int], dict[str, np.ndarray]]]:
  """Batches of lines of similar length, with little padding.

  Yields the lines' indices in the chunk, and the encoder's inputs, [B, T]
  int32. T is the longest line's length, rounded up to a multiple of `multiple`,
  but at most `max_seq_length`.
  """
  order = sorted(range(len(chunk)), key=lambda i: len(chunk[i].ids))
  for start in range(0, len(order), batch_size):
    indices = order[start : start + batch_size]
    longest = len(chunk[indices[-1]].ids)
    length = min(-(-longest // multiple) * multiple, max_seq_length)
    lines = [chunk[i] for i in indices]
    rows = [features.pad_inputs(x.ids, x.segments, length) for x in lines]
    names = rows[0]
    yield indices, {n: np.array([r[n] for r in rows], np.int32) for n in names}


def write_json(
  path: str,
  results: Iterable[Result],
  layers: Sequence[int],
  tokens: Callable[[Sequence[int]], list[str]],
) -> None:
  """Writes a JSON object for each line of text, as the original does."""

  def by_layer(vectors):
    pairs = zip(layers, vectors, strict=True)
    return [{"index": index, "values": values} for index, values in pairs]

  with files.open_for_writing(path) as file:
    for number, (line, values) in enumerate(results):
      # NumPy rounds like Python here: a float32 times 10^6 is exact in float64.
      rounded = np.round(values.astype(np.float64), 6).tolist()
      # The original spells the key like this.
      record: dict[str, Any] = {"linex_index": number}
      if values.ndim == 2:
        record["layers"] = by_layer(rounded)
      else:
        record["features"] = [
          {"token": token, "layers": by_layer(vectors)}
          for token, vectors in zip(tokens(line.ids), rounded, strict=True)
        ]
      file.write(json.dumps(record).encode() + b"\n")


def write_npz(
  path: str, results: Iterable[Result], layers: Sequence[int]
) -> None:
  """Writes the arrays that the module's docstring lists."""
  # Vectors go to a temporary file first, because they may exceed the memory.
  folder = None if files.is_remote(path) else os.path.dirname(path) or "."
  with (
    files.open_for_writing(path) as file,
    tempfile.TemporaryFile(dir=folder) as spool,
  ):
    ids, offsets = array("i"), [0]
    for line, values in results:
      spool.write(values.tobytes())
      ids.extend(line.ids)
      offsets.append(offsets[-1] + len(values))
    spool.flush()
    shape = values.shape if values.ndim == 2 else values.shape[1:]
    vectors = np.memmap(spool, np.float32, "r").reshape(-1, *shape)
    arrays: dict[str, Any] = {"layers": np.array(layers, np.int32)}
    if values.ndim == 2:
      arrays["vectors"] = vectors
    else:
      arrays |= {"values": vectors, "input_ids": np.array(ids, np.int32)}
      arrays["offsets"] = np.array(offsets, np.int64)
    # NumPy takes an object with `read` for a file, and streams without `seek`.
    names = ("write", "flush", "read")
    stream = SimpleNamespace(**{name: getattr(file, name) for name in names})
    np.savez(cast(BinaryIO, stream), **arrays)
