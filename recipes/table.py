"""Prints the table of recipes/README.md from the recipes' headers.

    python -m recipes.table > recipes/README.md

A header consists of comments at the top of a flagfile, "# Name: text" for each
name in FIELDS. A continuation line begins with three blanks after the "#".
"""

import re
from pathlib import Path

HERE = Path(__file__).parent
FIELDS = ("Paper", "Program", "Command", "Hardware", "Time", "Expected")
_NAME = re.compile(r"# (\w+): ")
_INTRODUCTION = """\
# Recipes

How do you run the paper's experiments? Each recipe here is a flagfile, which
you pass to its program with `--flagfile`. Repeat `--flagfile` to combine two
recipes. Later flags override earlier flags. The file of a recipe begins with
its complete command, in which `$BERT_DIR`, `$GLUE_DIR` and so on are your own
folders.

Add `--dry_run` to a command to check that it works and fits into memory: the
program trains two steps on your first examples, and saves nothing.

Recipes with `--stop_at_step=900000` are the first phase of the paper's
pre-training. For the second phase, continue in the same `--output_dir` with
`recipes/pretraining/phase_2.flags`, the first recipe's own flags
(`--objective`, `--mask_token_prob`, ...) and records of 512 tokens.

Unless stated otherwise, the expected numbers come from the paper or the
original, at full size. None of the paper's recipes was run here at full size.
`python -m experiments.run` runs small versions of the ablations on two cores;
[docs/results.md](../docs/results.md) has their results.
"""
_HEAD = """
## {}

| recipe | program | experiment | expected |
|---|---|---|---|
"""


def headers() -> dict[str, dict[str, str]]:
  """Reads all headers, sorted by name: {name of the recipe: {field: text}}."""
  return {
    str(path.relative_to(HERE)): header(path)
    for path in sorted(HERE.rglob("*.flags"))
  }


def header(path: Path) -> dict[str, str]:
  """Reads a recipe's header; ValueError for missing or unknown fields."""
  fields = {}
  for line in path.read_text(encoding="utf-8").splitlines():
    if match := _NAME.match(line):
      name = match[1]
      fields[name] = line.removeprefix(match[0])
    elif line.startswith("#   "):
      fields[name] += " " + line.removeprefix("#   ")
    else:
      break
  if tuple(fields) != FIELDS:
    raise ValueError(
      f"{path}: the header has {', '.join(fields)}; it must have "
      f"{', '.join(FIELDS)}, in this order"
    )
  return fields


def table() -> str:
  """The complete text of recipes/README.md."""
  sections = {}
  for name, fields in headers().items():
    folder, file = name.split("/")
    cells = (fields[key].replace("|", "\\|") for key in ("Paper", "Expected"))
    program = fields["Program"].removesuffix(".py")
    row = f"| [{file}]({name}) | {program} | {' | '.join(cells)} |\n"
    sections[folder] = sections.get(folder, _HEAD.format(folder)) + row
  return _INTRODUCTION + "".join(sections.values())


if __name__ == "__main__":
  print(table(), end="")
