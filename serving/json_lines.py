"""JSON lines to rows of texts, and rows to answers, for predictor.py."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping

from storage import UserError

# Inputs that the common names `text` and `text_pair` may stand for.
_OTHER_NAMES = {
  "text": ("text_a", "tokens", "sent1"),
  "text_pair": ("text_b", "sent2"),
}
_ID = "id"  # the answer repeats the id of a line


def read(lines: Iterable[bytes], predict) -> Iterator[dict]:
  """Yields texts by input for each line; a UserError names the line.

  A line is a JSON object, or a single input: a text or a list of words.
  """
  for number, line in enumerate(lines, 1):
    if not line.strip():
      continue
    try:
      row = json.loads(line)
    except (ValueError, RecursionError) as error:
      raise UserError(
        f"line {number} is no JSON: {error}; a text stands in double quotes"
      ) from None
    if isinstance(row, str | list):
      row = {"text": row}
    if not isinstance(row, dict):
      names = ", ".join(predict.inputs)
      raise UserError(f"line {number} is no object with {names}")
    try:
      row = check(row, predict)
    except UserError as error:
      raise UserError(f"line {number}: {error}") from None
    yield row


def check(row: Mapping, predict) -> dict:
  """Renames and checks a row; UserError for missing or unknown inputs."""
  row = rename(row, predict.inputs)
  given = {name: [row[name]] for name in row if name != _ID}
  try:
    checked = predict.check(given)
  except UserError as error:
    unknown = ", ".join(sorted(row.keys() - {*predict.inputs, _ID}))
    hint = f", and no {unknown}" if unknown else ""
    raise UserError(f"{error}{hint}") from None
  return row | {name: text for name, [text] in checked.items()}


def rename(texts: Mapping, inputs: Collection[str]) -> dict:
  """Renames `text` and `text_pair` to the names of a model's inputs."""
  names = {
    name: own
    for name, known in _OTHER_NAMES.items()
    for own in known
    if own in inputs and own not in texts
  }
  return {names.get(name, name): text for name, text in texts.items()}


def batches(rows: Iterable[dict], size: int) -> Iterator[list[dict]]:
  """Batches rows; yields the rows before a wrong line, then raises."""
  batch: list[dict] = []
  try:
    for row in rows:
      batch.append(row)
      if len(batch) == size:
        yield batch
        batch = []
  except UserError:
    yield batch
    raise
  yield batch


def answers(predict, batch: list[dict]) -> Iterator[dict]:
  """Yields answers; an answer begins with the row's id."""
  texts = [{k: v for k, v in row.items() if k != _ID} for row in batch]
  for row, answer in zip(batch, predict.answer(texts), strict=True):
    yield {_ID: row[_ID], **answer} if _ID in row else answer
