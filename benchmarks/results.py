"""Results of benchmarks: files of JSON lines, and tables in documents.

--publish saves results in results/NAME.jsonl, by case and processor, and writes
their tables between the comments <!-- NAME --> and <!-- /NAME -->.
"""

import json
import platform
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli import program
from storage import files

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Table:
  """Results and table of a benchmark."""

  name: str
  header: str  # cells, with " | " between them
  rows: Callable[[dict], Iterable[Sequence[str]]]
  document: Path = HERE / "README.md"
  folder: Path = HERE / "results"

  def report(self, results: Iterable[dict], publish: bool) -> None:
    """Prints results one by one; `publish` also saves results and table."""
    if publish:
      self._split()  # a missing table raises before the measurement
    begun = origin()
    print(*self._head(), sep="\n", flush=True)
    for result in results:
      if publish:
        self.save(begun | result)
        self.write()
      print(*_lines(self.rows(result)), sep="\n", flush=True)

  @property
  def file(self) -> Path:
    return self.folder / f"{self.name}.jsonl"

  def saved(self) -> list[dict]:
    text = self.file.read_text("utf-8") if self.file.exists() else ""
    return [json.loads(line) for line in text.splitlines()]

  def save(self, result: dict) -> None:
    results = {(r["case"], r["processor"]): r for r in (*self.saved(), result)}
    lines = (json.dumps(r) + "\n" for r in results.values())
    files.write_text(str(self.file), "".join(lines))

  def markdown(self) -> str:
    by_processor = {}
    for result in self.saved():
      by_processor.setdefault(result["processor"], []).append(result)
    tables = map(self._table, by_processor, by_processor.values())
    return "\n\n".join(tables) or "Not measured yet."

  def _table(self, processor, results):
    lines = [x for result in results for x in _lines(self.rows(result))]
    dates = sorted({result["date"] for result in results})
    commits = {result["commit"] or "unknown" for result in results}
    # Seven digits, and the + for files that differ from the commit.
    names = ", ".join(sorted({c[:7] + "+" * c.endswith("+") for c in commits}))
    last = f"Measured {' and '.join(dates)}, commit {names}, on {processor}."
    return "\n".join([*self._head(), *lines, "", last])

  def write(self) -> None:
    before, _, after = self._split()
    files.write_text(str(self.document), f"{before}{self.markdown()}\n{after}")

  def is_current(self) -> bool:
    return self._split()[1] == f"{self.markdown()}\n"

  def _split(self):
    parts = re.split(
      f"(?<=<!-- {self.name} -->\n)(.*?)(?=<!-- /{self.name} -->)",
      self.document.read_text(encoding="utf-8"),
      flags=re.DOTALL,
    )
    if len(parts) != 3:
      raise ValueError(
        f"{self.document} has no comments <!-- {self.name} --> and "
        f"<!-- /{self.name} --> for the table: add them"
      )
    return parts

  def _head(self):
    columns = len(self.header.split(" | "))
    return [f"| {self.header} |", "|---" * columns + "|"]


def origin() -> dict[str, str | None]:
  """Date, commit and processor, at the start of a measurement."""
  path = Path("/proc/cpuinfo")
  text = path.read_text(encoding="utf-8") if path.exists() else ""
  match = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
  name = match[1] if match else platform.machine()
  if "avx2" in text and "avx512f" not in text:
    name += " without AVX-512"  # and thus half as many products per second
  commit = program.commit()
  if commit:  # --publish changes tables and results
    diff = "git diff --quiet HEAD -- :/ :/!*/results :/!*.md".split()
    commit = commit[:40] + "+" * subprocess.call(diff, cwd=HERE)
  return {
    "date": time.strftime("%Y-%m-%d"),
    "commit": commit,
    "processor": re.sub(r"\((R|TM)\)", "", name),
  }


def _lines(rows):
  return [f"| {' | '.join(row)} |" for row in rows]
