"""Prints the table of recipes/README.md from the recipes' headers.

    python -m recipes.table > recipes/README.md

A header is comments at the top of a flagfile, "# Name: text", one of each of
FIELDS; a line that goes on begins with three blanks after the "#".
"""

import re
from pathlib import Path

HERE = Path(__file__).parent
FIELDS = ("Paper", "Program", "Command", "Hardware", "Time", "Expected")
_NAME = re.compile(r"# (\w+): ")
_INTRODUCTION = """\
# Recipes

The paper's experiments as flagfiles: a program takes one with `--flagfile`,
and flags after it override what it says. Each begins with its whole command;
`$BERT_DIR`, `$GLUE_DIR` and the like are folders of yours. `--dry_run` shows in
two steps, on the first of your data, whether a command works and fits into
memory; nothing is kept.

What is pre-trained with `--stop_at_step=900000` is the paper's first phase. The
second goes on in the same folder, with `recipes/pretraining/phase_2.flags`, the
recipe's own flags (`--objective`, `--mask_token_prob`, ...) and records of 512
tokens.

Numbers are the paper's or the original's, at full size, where no others are
given. None of the paper's recipes was run here at full size. Small versions of
the ablations, on novels and two cores: `python -m experiments.run`; what came
of them is in [docs/results.md](../docs/results.md).
"""


def headers() -> dict[str, dict[str, str]]:
  """{name of the recipe: {field: text}}, sorted.

  Raises:
    ValueError: a header lacks a field, or has one that is none.
  """
  return {
    str(path.relative_to(HERE)): header(path)
    for path in sorted(HERE.rglob("*.flags"))
  }


def header(path: Path) -> dict[str, str]:
  """The fields of a recipe's header."""
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
  """The whole of recipes/README.md."""
  lines = [_INTRODUCTION]
  folder = None
  for name, fields in headers().items():
    if (above := name.split("/")[0]) != folder:
      folder = above
      lines += [
        f"\n## {folder}\n" if len(lines) > 1 else f"## {folder}\n",
        "| recipe | program | paper | expected |",
        "|---|---|---|---|",
      ]
    short = name.removeprefix(f"{folder}/")
    cells = (fields[key].replace("|", "\\|") for key in ("Paper", "Expected"))
    program = fields["Program"].removesuffix(".py")
    lines.append(f"| [{short}]({name}) | {program} | {' | '.join(cells)} |")
  return "\n".join(lines) + "\n"


if __name__ == "__main__":
  print(table(), end="")
