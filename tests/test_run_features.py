"""run_features.py: a classifier and neighbours from stored vectors."""

import json

import numpy as np
import pytest

from tests import programs

LAYERS = np.array([-1, -2], np.int32)


def _store(path, vectors, layers=LAYERS):
  """Writes vectors [N, 4] as two layers of two numbers."""
  vectors = np.asarray(vectors, np.float32).reshape(-1, 2, 2)
  np.savez(path, layers=layers, vectors=vectors)


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
  def run(**flags):
    flags = given | {"output_file": "out.jsonl"} | flags
    return programs.call("run_features", cwd=tmp_path, **flags)

  return run


def _rows(tmp_path):
  lines = (tmp_path / "out.jsonl").read_text().splitlines()
  rows = [json.loads(line) for line in lines]
  assert [row["line"] for row in rows] == list(range(len(rows)))
  return rows


def test_classifies_and_scores(run, tmp_path):
  done = run(labels="labels", query_labels="query_labels")
  assert done.returncode == 0, done.stderr
  rows = _rows(tmp_path)
  expected = (tmp_path / "query_labels").read_text().split()
  right = [row["label"] == y for row, y in zip(rows, expected, strict=True)]
  assert np.mean(right) >= 0.9
  text = f"accuracy {np.mean(right):.4f} of 10 (always 'no': 0.5000)"
  assert text in done.stderr
  for row in rows:
    assert row["probabilities"].keys() == {"no", "yes"}
    assert sum(row["probabilities"].values()) == pytest.approx(1)
    assert row["probabilities"][row["label"]] >= 0.5


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_neighbours_are_those_of_all_distances(run, tmp_path, metric):
  texts = [f"text {i} ü" for i in range(30)]
  (tmp_path / "texts").write_text("\n".join(texts) + "\n", encoding="utf-8")
  done = run(num_neighbors=3, metric=metric, texts="texts")
  assert done.returncode == 0, done.stderr
  stored, queries = (
    np.load(tmp_path / name)["vectors"].reshape(-1, 4)
    for name in ("stored.npz", "queries.npz")
  )
  for query, row in zip(queries, _rows(tmp_path), strict=True):
    if metric == "cosine":
      norms = np.linalg.norm(stored, axis=1) * np.linalg.norm(query)
      distances = 1 - stored @ query / norms
    else:
      distances = np.linalg.norm(stored - query, axis=1)
    nearest = np.argsort(distances)[:3].tolist()
    assert [n["line"] for n in row["neighbors"]] == nearest
    assert [n["text"] for n in row["neighbors"]] == [texts[i] for i in nearest]
    np.testing.assert_allclose(
      [n["distance"] for n in row["neighbors"]], distances[nearest], atol=1e-6
    )


def test_more_neighbours_than_vectors(run, tmp_path):
  assert run(num_neighbors=99).returncode == 0
  assert {len(row["neighbors"]) for row in _rows(tmp_path)} == {30}


@pytest.mark.parametrize(
  ("flags", "message"),
  [
    ({}, "give either --labels, to classify, or --num_neighbors, to"),
    ({"labels": "labels", "num_neighbors": 1}, "give either --labels, to"),
    ({"num_neighbors": 1, "query_labels": "labels"}, "is for --labels"),
    ({"labels": "labels", "texts": "labels"}, "--texts is for --num_neighbors"),
    ({"labels": "none"}, "cannot read none: --labels names no file"),
    ({"labels": "query_labels"}, "has 10 lines, stored.npz has 30 vectors"),
    ({"labels": "same"}, "all labels are 'x': give two at least"),
    ({"features": "labels"}, "labels is no output of extract_features.py --f"),
    ({"features": "cut.npz"}, "cut.npz is no output of extract_features.py"),
    ({"features": "tokens.npz"}, "tokens.npz has no vectors of lines: run"),
    ({"features": "nan.npz"}, "nan.npz: the vector of line 2 is not finite"),
    ({"features": "other.npz"}, "stored layers"),
    ({"labels": "labels", "output_file": "labels"}, "labels is an input, too"),
  ],
)
def test_mistakes_are_named(run, tmp_path, flags, message):
  (tmp_path / "same").write_text("x\n" * 30)
  _store(tmp_path / "nan.npz", [[0] * 4, [np.nan] * 4])
  _store(tmp_path / "other.npz", [[0] * 4], np.array([0, 1], np.int32))
  np.savez(tmp_path / "tokens.npz", layers=LAYERS, values=np.zeros((1, 2, 2)))
  content = (tmp_path / "stored.npz").read_bytes()
  (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
  if "npz" in flags.get("features", "") or flags.get("features") == "labels":
    flags = {"num_neighbors": 1} | flags
  if message == "stored layers":
    message = "queries.npz has 4 numbers a line, of the layers [-1, -2], other"
  before = sorted(tmp_path.rglob("*"))
  done = run(**flags)
  programs.check_error(done.returncode, done.stderr, message)
  assert sorted(tmp_path.rglob("*")) == before
