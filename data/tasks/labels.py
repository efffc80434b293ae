"""The labels of a task, in an order: their places are the model's classes.

Kept beside the model as labels.txt, one a line, so that who predicts needs no
training data.
"""

import os
import re
from collections.abc import Iterable, Sequence

from data import files

FILE_NAME = "labels.txt"
_INTEGER = re.compile(r"-?\d+", re.ASCII)


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
  """Sorts different labels: by value if all are integers, else as texts.

  Texts go by code point: "B" before "a" before "é".
  """
  labels = set(labels)
  if all(map(_INTEGER.fullmatch, labels)):
    return tuple(sorted(labels, key=lambda label: (int(label), label)))
  return tuple(sorted(labels))


def save(labels: Sequence[str], folder: str) -> str:
  """Writes labels.txt into a folder; returns its path.

  Raises:
    ValueError: a label would not be read back as it is: it is empty, there
      twice, or contains a tab or a line break.
  """
  for label in labels:
    if not label or set(label) & set("\t\r\n"):
      raise ValueError(f"{label!r} cannot be a line of {FILE_NAME}")
  if len(set(labels)) < len(labels):
    raise ValueError(f"a label is there twice: {', '.join(labels)}")
  path = os.path.join(folder, FILE_NAME)
  with files.open_for_writing(path) as file:
    file.writelines(f"{label}\n".encode() for label in labels)
  return path


def keep(labels: Sequence[str], folder: str) -> None:
  """Writes labels.txt into a folder, unless it is there; see `save`."""
  if not exist(folder):
    save(labels, folder)


def exist(folder: str) -> bool:
  """Whether a folder has labels.txt."""
  return files.exists(os.path.join(folder, FILE_NAME))


def load(folder: str) -> tuple[str, ...]:
  """Reads labels.txt of a folder.

  Raises:
    OSError: it cannot be read.
    ValueError: it is empty.
  """
  path = os.path.join(folder, FILE_NAME)
  labels = tuple(line for line in files.lines(path) if line)
  if not labels:
    raise ValueError(f"{path} is empty; it has one label a line")
  return labels
