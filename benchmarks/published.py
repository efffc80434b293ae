"""What benchmarks have measured: results/NAME.jsonl, and tables in documents.

With --publish a benchmark keeps its results, a line of JSON for each case with
everyone who took part, in the place of an older one of the same case on the
same processor, and writes its tables anew from all that are kept, one for each
processor. Their place is between two comments:

  <!-- NAME -->
  <!-- /NAME -->
"""

import itertools
import json
import platform
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from absl import flags

from data import files
from training import run_record

FLAGS = flags.FLAGS
flags.DEFINE_bool("publish", False, "Keep the results and write their table.")

HERE = Path(__file__).parent
ORIGIN = ("date", "commit", "processor")


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
    begun = origin()
    print(*self._head(), sep="\n", flush=True)
    for result in results:
      if publish:
        self.keep(begun | result)
        self.write()
      print(*self._lines(result), sep="\n", flush=True)

  @property
  def file(self) -> Path:
    """Where the results are."""
    return self.results / f"{self.name}.jsonl"

  def kept(self) -> list[dict]:
    """Results so far, each with its ORIGIN."""
    if not self.file.exists():
      return []
    lines = self.file.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]

  def keep(self, result: dict) -> None:
    """Keeps a result, at the place of an older one of its case."""
    found = {_place(one): one for one in (*self.kept(), result)}
    _replace(
      self.file, "".join(json.dumps(one) + "\n" for one in found.values())
    )

  def text(self) -> str:
    """The tables of what is kept, and when it was measured; Markdown."""
    by_processor = {}
    for result in self.kept():
      by_processor.setdefault(result["processor"], []).append(result)
    tables = itertools.starmap(self._table, by_processor.items())
    return "\n\n".join(tables) or "Not measured yet."

  def _table(self, processor, results):
    lines = [line for result in results for line in self._lines(result)]
    dates = sorted({result["date"] for result in results})
    commits = sorted({_short(result["commit"]) for result in results})
    last = f"Measured {' and '.join(dates)}, commit {', '.join(commits)}, on "
    return "\n".join([*self._head(), *lines, "", f"{last}{processor}."])

  def write(self) -> None:
    """Writes the table into its document."""
    before, _, after = self._divided()
    _replace(self.document, f"{before}{self.text()}\n{after}")

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


def origin() -> dict[str, str | None]:
  """Date and commit of what is measured now, and on what."""
  commit = run_record.commit(besides=("benchmarks/results", "*.md"))
  values = time.strftime("%Y-%m-%d"), commit, _processor()
  return dict(zip(ORIGIN, values, strict=True))


def _processor():
  """Its name."""
  path = Path("/proc/cpuinfo")
  text = path.read_text(encoding="utf-8") if path.exists() else ""
  found = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
  name = found[1] if found else platform.machine()
  return re.sub(r"\((R|TM)\)", "", name)


def _place(result):
  """What a result takes the place of."""
  return result["case"], result["processor"]


def _replace(path, text):
  with files.open_for_writing(str(path)) as file:
    file.write(text.encode())


def _short(commit):
  """Seven digits, and the + of files that differed from it."""
  return f"{commit[:7]}{'+' * commit.endswith('+')}" if commit else "unknown"


def _line(cells):
  return f"| {' | '.join(cells)} |"
