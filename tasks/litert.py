"""Exports for LiteRT of all tasks. Imports no TensorFlow."""

from importlib import import_module

from serving.litert import SETTINGS, LiteRtExport, TextModel

TASKS = (
  *("classification", "features", "multiple_choice", "ner", "pretraining"),
  "squad",
)


def load(path: str) -> TextModel:
  """Function of raw text of an export's folder, or of a model in it.

  Raises:
    FileNotFoundError: a file is missing.
    ValueError: an earlier or a later version wrote the folder.
  """
  export = LiteRtExport(path)
  task = export.settings.get("task")
  if task not in TASKS:
    raise ValueError(
      f"{path}: {SETTINGS} names the task {task!r}, not one of "
      f"{', '.join(TASKS)}"
    )
  return import_module(f"tasks.{task}.litert").Model(export)
