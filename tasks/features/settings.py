"""Flags of extract_features.py -> layers; needs no TensorFlow."""


def layer_indexes(text: str) -> list[int]:
  """Parses --layers.

  Raises:
    ValueError: an index is not a number.
  """
  try:
    return [int(number) for number in text.split(",")]
  except ValueError:
    raise ValueError(
      f"--layers={text}: give numbers with commas between them, as in -1,-2"
    ) from None
