"""Reads tables with the columns text and rating, and builds records."""

from typing import NamedTuple

from data import tables
from data.features import RowEncoder


class RatedText(NamedTuple):
  """A text and its rating, which is None if unknown."""

  text: str
  rating: float | None


def read_examples(path, needs_ratings):
  """Reads a table. Raises ValueError if a needed column is missing."""
  columns = ("text", "rating") if needs_ratings else ("text",)
  return [
    RatedText(
      row.values["text"],
      float(row.values["rating"]) if "rating" in row.values else None,
    )
    for row in tables.read_table(path, columns)
  ]


class RatingRecordBuilder(RowEncoder):
  """Builds records of features.classification; the label is the rating."""

  def __call__(self, example):
    row = self.encode(example.text)
    label = {"label_ids": [example.rating or 0.0], "is_real_example": [1]}
    return self.inputs(row.ids, row.segments) | label, [row.length]
