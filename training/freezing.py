"""Freezing of layers (--freeze_layers)."""

import re

from absl import logging

# Matches variables of one encoder, or of the two of attention "shallow".
_LAYER = re.compile(
  r"bert/(?:left_to_right/|right_to_left/)?(\w+)/(?:layer_(\d+)/)?"
)


def freeze(model, layers: str) -> None:
  """Makes variables of some layers of a model non-trainable.

  `layers` has comma-separated numbers of blocks ("3"), ranges of them ("0-5")
  and parts ("embeddings", "encoder", "pooler"); empty for none.

  Frozen variables get no gradient, no weight decay and no slots, and do not
  count in the global norm. Their layers' dropout stays active.

  Raises:
    ValueError: the model has no such layer; names those it has.
  """
  layer_of_variable = [_layer_of(variable.path) for variable in model.variables]
  known = set(layer_of_variable)
  names = filter(None, layers.replace(" ", "").split(","))
  expected = {layer for name in names for layer in _parse(name, known)}
  frozen = [
    variable
    for variable, layer in zip(model.variables, layer_of_variable, strict=True)
    if expected & {layer, layer[:1]}
  ]
  for variable in frozen:
    variable.trainable = False
  if frozen:
    logging.info(
      "frozen: %d of %d variables", len(frozen), len(layer_of_variable)
    )


def _layer_of(name):
  """("encoder", "3") for a variable of a block, else its part, or ()."""
  match = _LAYER.match(name)
  return tuple(part for part in match.groups() if part) if match else ()


def _parse(name, known):
  """Layers that an item of the flag stands for; `known` are all of them."""
  parts = {layer[0] for layer in known if layer}
  blocks = {int(layer[1]) for layer in known if len(layer) > 1}
  if name in parts:
    return [(name,)]
  if numbers := re.fullmatch(r"(\d+)(?:-(\d+))?", name):
    first, last = int(numbers[1]), int(numbers[2] or numbers[1])
    expected = range(first, last + 1)
    if expected and blocks.issuperset(expected):
      return [("encoder", str(number)) for number in expected]
  raise ValueError(
    f"--freeze_layers: the model has no {name!r}; it has the layers 0-"
    f"{max(blocks)} and {', '.join(sorted(parts))}"
  )
