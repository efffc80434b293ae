"""Layers of a network by the names that users give them."""

import re
from collections.abc import Iterable

from storage import UserError

PARTS = ("embeddings", "encoder", "pooler")


def named_layers(
  layers: str, num_layers: int, parts: Iterable[str] = PARTS
) -> set[tuple[str, int | None]]:
  """Parts of an encoder, and numbers of its blocks, that --freeze_layers names.

  `layers` has comma-separated numbers of blocks ("3"), ranges of them ("0-5")
  and `parts`; ValueError for others. ("encoder", 3) is a block, ("pooler",
  None) a part.
  """
  result: set[tuple[str, int | None]] = set()
  for name in filter(None, layers.replace(" ", "").split(",")):
    numbers = re.fullmatch(r"(\d+)(?:-(\d+))?", name)
    span = range(0)
    if numbers:
      span = range(int(numbers[1]), int(numbers[2] or numbers[1]) + 1)
    if name in parts:
      result.add((name, None))
    elif span and span[-1] < num_layers:
      result |= {("encoder", number) for number in span}
    else:
      raise UserError(
        f"--freeze_layers: the model has no {name!r}; it has the layers 0-"
        f"{num_layers - 1} and {', '.join(sorted(parts))}"
      )
  return result
