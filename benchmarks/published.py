"""What benchmarks have measured: results/NAME.jsonl, and tables in documents.

With --publish a benchmark keeps its results, a line of JSON for each case, in
the place of an older one of the same case, and writes its table anew from all
that are kept. The place of a table is between two comments:

  <!-- NAME -->
  <!-- /NAME -->
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from absl import flags

from training import run_record

FLAGS = flags.FLAGS
flags.DEFINE_bool("publish", False, "Keep the results and write their table.")

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Table:
  """A benchmark's table.

  Attributes:
    name: of the benchmark.
    header: of the columns.
    rows: from a result, which has at least a `case`, to cells of its rows.
    document: the file that the table is in.
    results: the folder of results.
  """

  name: str
  header: Sequence[str]
  rows: Callable[[dict], Iterable[Sequence[str]]]
  document: Path = HERE / "README.md"
  results: Path = HERE / "results"

  def report(self, results: Iterable[dict]) -> None:
    """Prints results as they come, and keeps them if --publish says so."""
    publish = FLAGS["publish"].value
    if publish:
      self._divided()  # or all would be measured for nothing
    origin = {"date": time.strftime("%Y-%m-%d"), "commit": run_record.commit()}
    for line in self._head():
      print(line, flush=True)
    for result in results:
      for line in self._lines(result):
        print(line, flush=True)
      if publish:
        self.keep(origin | result)
    if publish:
      self.write()

  @property
  def file(self) -> Path:
    """Where the results are."""
    return self.results / f"{self.name}.jsonl"

  def kept(self) -> list[dict]:
    """Results so far, each with its `date` and `commit`."""
    if not self.file.exists():
      return []
    lines = self.file.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]

  def keep(self, result: dict) -> None:
    """Keeps a result, at the place of an older one of its case."""
    found = {old["case"]: old for old in self.kept()} | {result["case"]: result}
    text = "".join(json.dumps(one) + "\n" for one in found.values())
    self.file.write_text(text, encoding="utf-8")

  def text(self) -> str:
    """The table of what is kept, and when it was measured; Markdown."""
    results = self.kept()
    if not results:
      return "Not measured yet."
    lines = [line for result in results for line in self._lines(result)]
    dates = sorted({result["date"] for result in results})
    commits = sorted({_short(result["commit"]) for result in results})
    origin = f"Measured {' and '.join(dates)}, commit {', '.join(commits)}."
    return "\n".join([*self._head(), *lines, "", origin])

  def write(self) -> None:
    """Writes the table into its document."""
    before, _, after = self._divided()
    text = f"{before}{self.text()}\n{after}"
    self.document.write_text(text, encoding="utf-8")

  def is_current(self) -> bool:
    """Whether the document has the table of what is kept."""
    return self._divided()[1] == f"{self.text()}\n"

  def _divided(self):
    """The document before its table, the table, and after it."""
    parts = re.split(
      f"(?<=<!-- {self.name} -->\n)(.*?)(?=<!-- /{self.name} -->)",
      self.document.read_text(encoding="utf-8"),
      flags=re.DOTALL,
    )
    if len(parts) != 3:
      raise ValueError(
        f"{self.document} has no place for {self.name}; see "
        "benchmarks/published.py"
      )
    return parts

  def _head(self):
    return [_line(self.header), "|---" * len(self.header) + "|"]

  def _lines(self, result):
    return [_line(row) for row in self.rows(result)]


def _short(commit):
  """Seven digits, and the + of files that differed from it."""
  return f"{commit[:7]}{'+' * commit.endswith('+')}" if commit else "unknown"


def _line(cells):
  return f"| {' | '.join(cells)} |"
