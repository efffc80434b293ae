"""metrics.jsonl: training and evaluation metrics of a run.

A line is a JSON object: `step`, and numbers by name. Lines with `loss` are
means over the training steps since the line before; others are results of an
evaluation.
"""

import json
import os
from collections.abc import Mapping

import tensorflow as tf

from storage import files
from training import worker_role

NAME = "metrics.jsonl"


def add(folder: str, step: int, values: Mapping[str, float]) -> None:
  """Appends a line to a run's file, on the chief."""
  if not worker_role.is_chief():
    return
  numbers = {name: float(f"{float(v):.6g}") for name, v in values.items()}
  with tf.io.gfile.GFile(os.path.join(folder, NAME), "a") as file:
    file.write(json.dumps({"step": step} | numbers) + "\n")


def read(folder: str) -> list[dict[str, float]]:
  """All complete lines; none without a file. Truncated lines are left out."""
  result = []
  for line in _text(folder).splitlines():
    try:
      result.append(json.loads(line))
    except ValueError:
      continue
  return result


def _text(folder):
  path = os.path.join(folder, NAME)
  if not tf.io.gfile.exists(path):
    return ""
  with tf.io.gfile.GFile(path) as file:
    return file.read()


def forget_after(folder: str, step: int) -> None:
  """Removes lines of later steps and truncated lines, on the chief."""
  if not worker_role.is_chief():
    return
  lines = [line for line in read(folder) if line["step"] <= step]
  text = "".join(json.dumps(line) + "\n" for line in lines)
  if text != _text(folder):
    path = os.path.join(folder, NAME)
    files.write_text(path, text)


def draw(folder: str) -> str | None:
  """Draws training.png, on the chief and if matplotlib is installed.

  Returns its path; None if nothing was drawn.
  """
  if not worker_role.is_chief():
    return None
  lines = read(folder)
  names = list(dict.fromkeys(k for line in lines for k in line if k != "step"))
  try:
    from matplotlib.figure import Figure  # noqa: PLC0415, an extra
  except ImportError:
    return None
  if not names:
    return None
  rows = -(-len(names) // 2)
  figure = Figure(figsize=(9, 2.2 * rows), layout="tight")
  axes = figure.subplots(rows, 2, squeeze=False).flat
  for name, ax in zip(names, axes, strict=False):
    points = [(line["step"], line[name]) for line in lines if name in line]
    ax.plot(*zip(*points, strict=True), marker="." if len(points) < 30 else "")
    ax.set_title(name, fontsize=9)
    ax.grid(alpha=0.3)
  for ax in list(axes)[len(names) :]:
    ax.remove()
  path = os.path.join(folder, "training.png")
  with tf.io.gfile.GFile(path, "wb") as file:
    figure.savefig(file, format="png", dpi=110)
  return path
