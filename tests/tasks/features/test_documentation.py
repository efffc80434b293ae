"""The classifier of docs/fine_tuning.md reads files of extract_features."""

import re

import numpy as np

from tests import programs


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
