"""Activation files can be read back, and look like the original's."""

import json
import re

import numpy as np
import pytest

from tasks.features import lines
from tasks.features.lines import Line
from tests import programs

LINES = [Line(0, [2, 5, 3], [0, 0, 0]), Line(1, [2, 3], [0, 0])]
LAYERS = [-1, 0]


def _tokens(ids):
  return [f"t{i}" for i in ids]


def _values(*shape, seed=0):
  return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
  ("line", "values", "expected"),
  [
    (
      LINES[1],
      [[[1.2345672], [-2]], [[0.5], [1e-7]]],
      '{"linex_index": 1, "features": ['
      '{"token": "t2", "layers": [{"index": -1, "values": [1.234567]}, '
      '{"index": 0, "values": [-2.0]}]}, '
      '{"token": "t3", "layers": [{"index": -1, "values": [0.5]}, '
      '{"index": 0, "values": [0.0]}]}]}\n',
    ),
    (
      LINES[0],
      [[1.0], [2.0]],
      '{"linex_index": 0, "layers": [{"index": -1, "values": [1.0]}, '
      '{"index": 0, "values": [2.0]}]}\n',
    ),
  ],
)
def test_a_line_is_written_as_json(tmp_path, line, values, expected):
  path = tmp_path / "out.jsonl"
  results = [(line, np.array(values, np.float32))]
  lines.write_json(str(path), results, LAYERS, _tokens)
  assert path.read_text() == expected


def test_numbers_are_rounded_as_python_rounds_them(tmp_path):
  path = tmp_path / "out.jsonl"
  values = np.hstack([_values(1, 10000) * 9, _values(1, 99) / 1e5])
  values[0, :3] = 1 / 128, 3 / 128, -1e-9  # ties, and a negative zero
  lines.write_json(str(path), [(LINES[0], values)], [0], _tokens)
  result = json.loads(path.read_text())["layers"][0]["values"]
  expected = [round(float(x), 6) for x in values.ravel()]
  assert list(map(repr, result)) == list(map(repr, expected))


def test_vectors_of_tokens_are_written_as_npz(tmp_path):
  path = str(tmp_path / "new" / "out.npz")
  values = [_values(len(line.ids), 2, 4, seed=line.number) for line in LINES]
  lines.write_npz(path, zip(LINES, values, strict=True), LAYERS)
  result = dict(np.load(path))
  vectors = result.pop("values")
  expected = {"layers": LAYERS, "input_ids": [2, 5, 3, 2, 3]}
  expected["offsets"] = [0, 3, 5]
  assert {name: value.tolist() for name, value in result.items()} == expected
  assert vectors.dtype == np.float32
  np.testing.assert_array_equal(vectors, np.concatenate(values))


def test_vectors_as_npz_and_equal_bytes_every_time(tmp_path):
  values = [_values(2, 4, seed=line.number) for line in LINES]
  paths = [tmp_path / name for name in ("one.npz", "two.npz")]
  for path in paths:
    lines.write_npz(str(path), zip(LINES, values, strict=True), LAYERS)
  result = dict(np.load(paths[0]))
  assert sorted(result) == ["layers", "vectors"]
  np.testing.assert_array_equal(result["vectors"], values)
  assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("write", ["write_json", "write_npz"])
def test_an_error_on_the_way_leaves_nothing(write, tmp_path):
  def results():
    yield LINES[0], _values(3, 2, 4)
    raise ValueError("on the way")

  rest = (LAYERS, _tokens)[: 2 if write == "write_json" else 1]
  with pytest.raises(ValueError, match="on the way"):
    getattr(lines, write)(str(tmp_path / "out"), results(), *rest)
  assert not list(tmp_path.iterdir())


def test_the_documented_classifier_runs(tmp_path, monkeypatch, capsys):
  text = (programs.ROOT / "docs/fine_tuning.md").read_text(encoding="utf-8")
  [block] = re.findall(r"```python\n(.*?LogisticRegression.*?)```", text, re.S)
  monkeypatch.chdir(tmp_path)
  rng = np.random.RandomState(1)
  for name, number in (("train", 40), ("dev", 10)):
    is_first = np.arange(number) % 2
    vectors = rng.normal(size=(number, 2, 3)) + 4 * is_first[:, None, None]
    np.savez(f"{name}.npz", vectors=vectors, layers=[-1, -2])
    labels = "".join(f"{label}\n" for label in is_first)
    (tmp_path / f"{name}.labels").write_text(labels)
  values = {}
  exec(compile(block, "docs/fine_tuning.md", "exec"), values)
  assert capsys.readouterr().out.startswith("accuracy 1.0")
  neighbours = [values["labels"][line] for [line] in values["lines"]]
  assert neighbours == values["expected"]
