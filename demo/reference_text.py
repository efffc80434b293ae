"""Writes text about Python for the demonstration, from files of Python itself.

CPython contains the language reference (pydoc's topics) and the docstrings of
the library, so the demonstration downloads nothing.

  python demo/reference_text.py FOLDER

FOLDER/train has a file for each topic and module. FOLDER/held_out, to evaluate
on, has every eighth topic and every sixteenth module. FOLDER/task has texts of
some modules, with the module's subject as label, to fine-tune on. No sentence
occurs twice in FOLDER.
"""

import ast
import os
import re
import shutil
import sys
import sysconfig
import textwrap
import zlib
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

_LIBRARY = Path(sysconfig.get_path("stdlib"))
_LEFT_OUT = re.compile(
  r"(site|dist)-packages|/tests?/|^(test|idlelib|lib2to3|pydoc_data)/|bundled"
)
SUBJECTS = {
  "concurrency": r"asyncio/|concurrent/|multiprocessing/|threading|queue",
  "files": r"pathlib|shutil|tarfile|zipfile|tempfile|glob|os\.|posixpath|_pyio",
  "mail": r"email/|mailbox|smtplib|imaplib|poplib",
  "numbers": r"_pydecimal|fractions|statistics|random|numbers",
  "testing": r"unittest/|doctest",
  "web": r"http/|urllib/|xmlrpc/|html/|wsgiref/|socketserver",
}


def prose(text: str, least: int = 40) -> Iterator[str]:
  """Paragraphs of `least` characters or more; no headings, grammar or code."""
  for block in text.split("\n\n"):
    lines = textwrap.dedent(block).splitlines()
    joined = " ".join(line.strip().removeprefix("* ") for line in lines)
    is_code = re.search(r"::=|>>>|^ +\S", "\n".join(lines), re.MULTILINE)
    if not is_code and re.fullmatch(rf"[A-Z\"].{{{least},}}[.:]", joined):
      yield joined


def modules() -> Iterator[tuple[str, list[str]]]:
  """Yields each library module's name, and the paragraphs of its docstrings."""
  for path in sorted(_LIBRARY.rglob("*.py")):
    name = path.relative_to(_LIBRARY).as_posix()
    if _LEFT_OUT.search(name):
      continue
    tree = ast.parse(path.read_bytes())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, documented)]
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    texts = [ast.get_docstring(node) or "" for node in nodes]
    yield name, [part for text in texts for part in prose(text, least=25)]


def main(folder: str) -> None:
  """Writes FOLDER/held_out, FOLDER/train and FOLDER/task.

  FOLDER exists only when all text is written. An interrupted run leaves
  FOLDER.part, which the next run replaces.
  """
  part = f"{folder}.part"
  shutil.rmtree(part, ignore_errors=True)
  documents = [(name, [*prose(topics[name])]) for name in sorted(topics)]
  library = list(modules())
  held_out = documents[3::8] + library[3::16]
  names = {name for name, _ in held_out}
  train = [pair for pair in documents + library if pair[0] not in names]
  seen = set()
  rows = []
  for name, paragraphs in held_out:
    _write(Path(part, "held_out"), name, _unseen(paragraphs, seen))
  for name, paragraphs in train:
    matches = (s for s, names in SUBJECTS.items() if re.match(names, name))
    subject = next(matches, None)
    saved = []
    for text in _unseen(paragraphs, seen):
      if subject and zlib.crc32(text.encode()) % 3 == 0:
        rows.append(f"{text}\t{subject}")
      else:
        saved.append(text)
    _write(Path(part, "train"), name, saved)
  for split, some in (("train", rows[::2]), ("dev", rows[1::2])):
    path = Path(part, "task", f"{split}.tsv")
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["text\tlabel", *some, ""]), encoding="utf-8")
  os.rename(part, folder)
  print(
    f"wrote to {folder}: train/ and held_out/ with text, a file for each topic"
    f" and module; task/ with {len(rows):,} texts that have a subject"
  )


def _write(folder, name, paragraphs):
  folder.mkdir(parents=True, exist_ok=True)
  path = folder / f"{name.replace('/', '.')}.txt"
  path.write_text("\n\n".join(paragraphs) + "\n", encoding="utf-8")


def _unseen(paragraphs, seen):
  """Yields paragraphs without sentences that are in `seen`."""
  for paragraph in paragraphs:
    sentences = re.split(r"(?<=[.:!?]) +", paragraph)
    new = [text for text in dict.fromkeys(sentences) if text not in seen]
    seen.update(new)
    if new:
      yield " ".join(new)


if __name__ == "__main__":
  if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit("usage: python demo/reference_text.py FOLDER, a new folder")
  if os.path.exists(name := sys.argv[1].rstrip("/")):
    sys.exit(f"ERROR: {name} exists already; remove it, or name another folder")
  main(name)
