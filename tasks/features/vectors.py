"""Stored vectors: classifier, and K neighbours of Q queries among N vectors."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from absl import logging

from storage import UserError, files, textfiles


def load(path: str) -> tuple[np.ndarray, list[int]]:
  """Reads vectors [N, L * H] and layers; OSError or ValueError without them."""
  with files.open_for_reading(path) as file:
    try:
      with np.load(file) as arrays:
        layers = arrays["layers"].tolist()
        vectors = np.asarray(arrays["vectors"], np.float32)
        vectors = vectors.reshape(len(vectors), -1)
    except Exception as error:  # corrupt archives fail in many ways
      raise UserError(
        f"{path} has no vectors of lines, or is corrupt: run "
        "extract_features.py with --format=npz and --pooling=mean or cls"
      ) from error
  bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
  if bad.size:
    raise UserError(f"{path}: the vector of line {bad[0] + 1} is not finite")
  return vectors, layers


def load_pair(path: str, query_path: str) -> tuple[np.ndarray, np.ndarray]:
  """Reads stored vectors [N, L * H] and queries [Q, L * H] of one model."""
  (stored, layers), (queries, query_layers) = load(path), load(query_path)
  if layers != query_layers or stored.shape[1] != queries.shape[1]:
    raise UserError(
      f"{query_path} has {queries.shape[1]} numbers a line, of the layers "
      f"{query_layers}, {path} has {stored.shape[1]}, of {layers}: extract "
      "both with the same model and --layers"
    )
  return stored, queries


def read_lines(path: str | None, number: int, vectors: str) -> list[str] | None:
  """Reads labels or texts of `number` vectors; ValueError if numbers differ."""
  if not path:
    return None
  lines = [line.strip() for line in textfiles.text_lines(path)]
  if len(lines) != number:
    raise UserError(
      f"{path} has {len(lines)} lines, {vectors} has {number} vectors: they "
      "should be of the same lines"
    )
  return lines


def classify(
  stored: np.ndarray,
  labels: Sequence[str],
  queries: np.ndarray,
  regularization: float,
) -> list[dict]:
  """Labels of queries by a logistic regression, with L2, on the stored."""
  from sklearn.linear_model import LogisticRegression  # noqa: PLC0415, seconds
  from sklearn.pipeline import make_pipeline  # noqa: PLC0415
  from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

  if len(set(labels)) < 2:
    raise UserError(f"all labels are {labels[0]!r}: give two at least")
  regression = LogisticRegression(C=1 / regularization, max_iter=1000)
  classifier = make_pipeline(StandardScaler(), regression).fit(stored, labels)
  names = classifier.classes_.tolist()
  rows = classifier.predict_proba(queries).tolist()
  probs = [dict(zip(names, row, strict=True)) for row in rows]
  return [
    {"label": max(p, key=p.__getitem__), "probabilities": p} for p in probs
  ]


def log_accuracy(results: Sequence[dict], labels: Sequence[str]) -> None:
  """Logs accuracy and the fraction of the most frequent label."""
  right = [r["label"] == y for r, y in zip(results, labels, strict=True)]
  [(name, number)] = Counter(labels).most_common(1)
  text = "accuracy %.4f of %d (always %r: %.4f)"
  logging.info(text, np.mean(right), len(right), name, number / len(right))


def neighbors(
  stored: np.ndarray,
  queries: np.ndarray,
  number: int,
  metric: str,
  texts: Sequence[str] | None,
) -> Iterator[dict]:
  """The K = `number` nearest of [N, L * H] for each query of [Q, L * H]."""
  from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415, seconds

  search = NearestNeighbors(
    n_neighbors=min(number, len(stored)), metric=metric, algorithm="brute"
  )
  distances, indices = search.fit(stored).kneighbors(queries)  # [Q, K] each
  for row in zip(indices.tolist(), distances.tolist(), strict=True):
    result = [{"line": i, "distance": d} for i, d in zip(*row, strict=True)]
    if texts:
      result = [r | {"text": texts[r["line"]]} for r in result]
    yield {"neighbors": result}
