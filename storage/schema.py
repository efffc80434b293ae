"""Fields of a record: names, shapes and storage types."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Feature:
  """One field of a record: a dense array of fixed shape.

  Attributes:
    name: key in the tf.train.Example.
    shape: shape of one record's value, without the batch dimension.
    dtype: storage type, "int64" or "float32" (what an Example can hold).
  """

  name: str
  shape: tuple[int, ...]
  dtype: str = "int64"

  @property
  def size(self) -> int:
    """Number of values in one record."""
    size = 1
    for length in self.shape:
      size *= length
    return size


class Schema(dict):
  """The fields of a record by name, in the order they are written."""

  def __init__(self, *features: Feature):
    super().__init__((feature.name, feature) for feature in features)
