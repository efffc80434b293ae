"""The demonstration's text, the Python that make chooses, scripts of .ci."""

import re
import shutil
import subprocess

from demo import reference_text
from tests import programs

SPLITS = ("train", "dev")
SENTENCES = "It returns a value. It is a function of two arguments."


def test_the_demo_text_has_no_sentence_twice_and_no_code(tmp_path, monkeypatch):
  # The demo holds out t3 and writes it first. The other topics have the same
  # sentences. t4 has a new sentence, too.
  topics = {f"t{n}": SENTENCES for n in range(8)}
  topics["t4"] += " This one is new.\n\n   >>> print(1)\n   1"
  monkeypatch.setattr(reference_text, "topics", topics)
  module = ("asyncio/a.py", [f"Runs the task of number {n}." for n in range(9)])
  monkeypatch.setattr(reference_text, "modules", lambda: [module])
  reference_text.main(str(tmp_path))
  texts = {
    str(path.relative_to(tmp_path)): path.read_text().strip()
    for path in tmp_path.rglob("*.txt")
  }
  assert texts.pop("held_out/t3.txt") == SENTENCES
  assert texts.pop("train/t4.txt") == "This one is new."
  saved = texts.pop("train/asyncio.a.py.txt").split("\n\n")
  assert set(texts.values()) == {""}
  train, dev = (programs.table(tmp_path / "task" / f"{n}.tsv") for n in SPLITS)
  rows = train[1:] + dev[1:]
  assert {label for _, label in rows} == {"concurrency"}  # of asyncio
  assert sorted([*saved, *(text for text, _ in rows)]) == module[1]


def test_make_chooses_the_newest_python_that_works(tmp_path):
  """python3.13 exists but fails, as pyenv's commands do for unused versions."""
  scripts = {"3.13": "exit 127", "3.12": "echo python3.12", "3": "echo x"}
  for name, text in scripts.items():
    (tmp_path / f"python{name}").write_text(f"#!/bin/sh\n{text}\n")
    (tmp_path / f"python{name}").chmod(0o755)
  (tmp_path / "requirements.txt").touch()
  makefile = programs.ROOT / "Makefile"
  command = [shutil.which("make"), "-f", makefile, ".venv/installed"]

  def make(*flags, path=tmp_path):
    options = {"cwd": tmp_path, "env": {"PATH": str(path)}, "text": True}
    return subprocess.run([*command, *flags], **options, capture_output=True)

  assert "python3.12 -m venv .venv" in make("-n").stdout
  assert "3.10 -m venv .venv" in make("-n", "PYTHON=python3.10").stdout
  done = make(path=tmp_path / "none")
  assert "No Python 3.11, 3.12 or 3.13 with venv works here" in done.stdout
  assert done.returncode != 0


def test_all_tests_of_make_test_processors_exist():
  """pytest runs no test at all if one of the given tests is missing."""
  script = (programs.ROOT / ".ci/processors").read_text()
  tests = re.findall(r"^  (tests/\S+?)(?:::(\w+))?$", script, re.MULTILINE)
  assert len(tests) == script.count(" tests/") > 5
  for path, name in tests:
    assert f"def {name}" in (programs.ROOT / path).read_text(), (path, name)
