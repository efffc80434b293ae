"""run_features.py: a classifier and neighbours from stored vectors."""

import json

import numpy as np
import pytest

from tests import programs


def _store(path, vectors):
  """Writes vectors [N, 4] as two layers of two numbers."""
  vectors = np.asarray(vectors, np.float32).reshape(-1, 2, 2)
  np.savez(path, layers=np.array([-1, -2], np.int32), vectors=vectors)


@pytest.fixture(name="given")
def _given(tmp_path):
  rng = np.random.default_rng(1)
  labels = np.array(["no", "yes"])[np.arange(40) % 2]
  # The sign of the third number is the label; its scale is tiny.
  vectors = rng.normal(size=(40, 4))
  vectors[:, 2] = (np.abs(vectors[:, 2]) + 1) * np.where(labels == "yes", 1, -1)
  vectors[:, 2] *= 1e-3
  _store(tmp_path / "stored.npz", vectors[:30])
  _store(tmp_path / "queries.npz", vectors[30:])
  text = "\ufeff" + "\n".join(labels[:30]) + "\n"
  (tmp_path / "labels").write_text(text, encoding="utf-8")
  (tmp_path / "query_labels").write_text("\n".join(labels[30:]) + "\n")
  return {"features": "stored.npz", "query_features": "queries.npz"}


@pytest.fixture(name="run")
def _run(given, tmp_path):
  """Function that runs the program; returns its rows and its log."""

  def run(**flags):
    flags = given | {"output_file": "out.jsonl"} | flags
    log = programs.run("run_features", cwd=tmp_path, **flags)
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["line"] for row in rows] == list(range(len(rows)))
    return rows, log

  return run


def test_classifies_and_scores(run, tmp_path):
  rows, log = run(labels="labels", query_labels="query_labels")
  expected = (tmp_path / "query_labels").read_text().split()
  right = [row["label"] == y for row, y in zip(rows, expected, strict=True)]
  assert np.mean(right) >= 0.9
  assert f"accuracy {np.mean(right):.4f} of 10 (always 'no': 0.5000)" in log
  for row in rows:
    assert row["probabilities"].keys() == {"no", "yes"}
    assert sum(row["probabilities"].values()) == pytest.approx(1)
    assert row["probabilities"][row["label"]] >= 0.5


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_neighbours_are_those_of_all_distances(run, tmp_path, metric):
  texts = [f"text {i} ü" for i in range(30)]
  (tmp_path / "texts").write_text("\n".join(texts) + "\n", encoding="utf-8")
  rows, _ = run(num_neighbors=3, metric=metric, texts="texts")
  stored, queries = (
    np.load(tmp_path / name)["vectors"].reshape(-1, 4)
    for name in ("stored.npz", "queries.npz")
  )
  for query, row in zip(queries, rows, strict=True):
    if metric == "cosine":
      norms = np.linalg.norm(stored, axis=1) * np.linalg.norm(query)
      distances = 1 - stored @ query / norms
    else:
      distances = np.linalg.norm(stored - query, axis=1)
    nearest = np.argsort(distances)[:3].tolist()
    result = [(n["line"], n["text"]) for n in row["neighbors"]]
    assert result == [(i, texts[i]) for i in nearest]
    result = [n["distance"] for n in row["neighbors"]]
    np.testing.assert_allclose(result, distances[nearest], atol=1e-6)


def test_more_neighbours_than_vectors(run):
  rows, _ = run(num_neighbors=99)
  assert {len(row["neighbors"]) for row in rows} == {30}


def test_regularization_takes_away_certainty(run):
  for strength, expected in ((1e-3, 0.99), (1e6, 0.51)):
    rows, _ = run(labels="labels", regularization=strength, overwrite=True)
    best = max(max(row["probabilities"].values()) for row in rows)
    assert (best > expected) == (strength < 1)
