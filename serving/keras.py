"""Writes --export_format=keras, which other programs can train further."""

import os


def save(folder: str, served) -> None:
  served.model.save(os.path.join(folder, "model.keras"))
