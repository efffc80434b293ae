"""Layers that stay as they are while the others are trained."""

import re

from absl import logging

# Of one network, or of two side by side.
_PLACE = re.compile(
  r"bert/(?:left_to_right/|right_to_left/)?(\w+)/(?:layer_(\d+)/)?"
)


def freeze(model, layers: str) -> None:
  """Takes layers out of a model's trainable variables.

  Frozen variables get no gradient, no weight decay and no slots, and do not
  count in the global norm. Dropout stays on in them.

  Args:
    model: a Keras model with an encoder of the name `bert`.
    layers: comma-separated numbers of blocks ("3"), ranges of them ("0-5") and
      parts ("embeddings", "encoder", "pooler"); empty for none.

  Raises:
    ValueError: the model has no such layer; says which it has.
  """
  places = [_place(variable.path) for variable in model.variables]
  wanted = {
    place
    for part in layers.replace(" ", "").split(",")
    if part
    for place in _places(part, set(places))
  }
  frozen = [
    variable
    for variable, place in zip(model.variables, places, strict=True)
    if wanted & {place, place[:1]}
  ]
  for variable in frozen:
    variable.trainable = False
  if frozen:
    logging.info("frozen: %d of %d variables", len(frozen), len(places))


def _place(name):
  """("encoder", "3") of a block's variable, else the part's name alone."""
  match = _PLACE.match(name)
  return tuple(part for part in match.groups() if part) if match else ()


def _places(part, known):
  """What a part of the flag means, among the places that there are."""
  parts = {place[0] for place in known if place}
  blocks = {int(place[1]) for place in known if len(place) > 1}
  if part in parts:
    return [(part,)]
  if numbers := re.fullmatch(r"(\d+)(?:-(\d+))?", part):
    first, last = int(numbers[1]), int(numbers[2] or numbers[1])
    wanted = range(first, last + 1)
    if wanted and blocks.issuperset(wanted):
      return [("encoder", str(number)) for number in wanted]
  raise ValueError(
    f"--freeze_layers: the model has no {part!r}; it has the layers 0-"
    f"{max(blocks)} and {', '.join(sorted(parts))}"
  )
