"""The file of --export_format=keras, for programs that train it further."""

import os


def save(folder: str, served) -> None:
  """Writes model.keras, which takes tokens."""
  served.model.save(os.path.join(folder, "model.keras"))
