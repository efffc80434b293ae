"""Role of this process among those that train together, by TF_CONFIG."""

import json
import os

from storage import UserError


def is_chief() -> bool:
  """True in the chief or the only worker, by TF_CONFIG, else ValueError."""
  config = _cluster_config()
  task = config.get("task", {})
  if "chief" in config.get("cluster", {}):
    return task.get("type") == "chief"
  return task.get("type", "worker") == "worker" and not task.get("index", 0)


def has_others() -> bool:
  """True if several processes train together."""
  return sum(map(len, _cluster_config().get("cluster", {}).values())) > 1


def _cluster_config():
  text = os.environ.get("TF_CONFIG") or "{}"
  try:
    return json.loads(text)
  except ValueError as error:
    raise UserError(f"TF_CONFIG={text} is no JSON: {error}") from None
