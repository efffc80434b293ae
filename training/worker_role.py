"""Role of this process among several workers, without TensorFlow."""

import json
import os


def is_chief() -> bool:
  """True in the process that writes files: the chief, or the only worker.

  The environment variable TF_CONFIG states the role.

  Raises:
    ValueError: TF_CONFIG is no JSON.
  """
  config = _config()
  task = config.get("task", {})
  if "chief" in config.get("cluster", {}):
    return task.get("type") == "chief"
  return task.get("type", "worker") == "worker" and not task.get("index", 0)


def has_others() -> bool:
  """True if several processes train together."""
  return sum(map(len, _config().get("cluster", {}).values())) > 1


def _config() -> dict:
  text = os.environ.get("TF_CONFIG") or "{}"
  try:
    return json.loads(text)
  except ValueError as error:
    raise ValueError(f"TF_CONFIG={text} is no JSON: {error}") from None
