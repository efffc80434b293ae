"""Layers that stay as they are while the others are trained."""

import re

from absl import logging

_LAYER = re.compile(r"bert/encoder/layer_(\d+)/")
_PART = re.compile(r"bert/(\w+)/")


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
  names = [variable.path for variable in model.variables]
  prefixes = [
    prefix
    for part in layers.replace(" ", "").split(",")
    if part
    for prefix in _prefixes(part, names)
  ]
  frozen = [v for v in model.variables if v.path.startswith(tuple(prefixes))]
  for variable in frozen:
    variable.trainable = False
  if frozen:
    logging.info("frozen: %d of %d variables", len(frozen), len(names))


def _prefixes(part, names):
  """What the names of a part's variables begin with."""
  blocks = {int(match[1]) for match in map(_LAYER.match, names) if match}
  parts = {match[1] for match in map(_PART.match, names) if match}
  if part in parts:
    return [f"bert/{part}/"]
  if numbers := re.fullmatch(r"(\d+)(?:-(\d+))?", part):
    first, last = int(numbers[1]), int(numbers[2] or numbers[1])
    wanted = range(first, last + 1)
    if wanted and blocks.issuperset(wanted):
      return [f"bert/encoder/layer_{number}/" for number in wanted]
  raise ValueError(
    f"--freeze_layers: the model has no {part!r}; it has the layers 0-"
    f"{max(blocks)} and {', '.join(sorted(parts))}"
  )
