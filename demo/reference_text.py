"""Writes the prose of Python's language reference, a file for each topic.

Every CPython carries it in `pydoc_data.topics`, so the demonstration needs no
download. Every eighth topic goes to another folder, to evaluate on.

  python demo/reference_text.py FOLDER
"""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics


def prose(text: str) -> Iterator[str]:
  """Paragraphs of running text, without headings, grammar and code."""
  for block in text.split("\n\n"):
    lines = textwrap.dedent(block).splitlines()
    joined = " ".join(line.strip().removeprefix("* ") for line in lines)
    is_code = re.search(r"::=|>>>|^ +\S", "\n".join(lines), re.MULTILINE)
    if not is_code and re.fullmatch(r"[A-Z\"].{40,}[.:]", joined):
      yield joined


def main(folder: str) -> None:
  """Writes FOLDER/train/*.txt and FOLDER/held_out/*.txt."""
  for number, (name, text) in enumerate(sorted(topics.items())):
    part = "held_out" if number % 8 == 3 else "train"
    path = Path(folder, part, f"{name}.txt")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(prose(text)) + "\n", encoding="utf-8")


if __name__ == "__main__":
  main(sys.argv[1])
