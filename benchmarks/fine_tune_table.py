"""Results of benchmarks/fine_tune.py as tables: scores, and times."""

from collections.abc import Iterable, Iterator
from statistics import median
from typing import NamedTuple

from benchmarks.fine_tune_tasks import Task
from benchmarks.published import ORIGIN, Table
from benchmarks.spread import mean_and_spread, ratios

OURS, TORCH, SAME_ADAM = "ours", "torch", "torch_bert_adam"
SIDES = {OURS: "ours", TORCH: "torch", SAME_ADAM: "torch, BERT's Adam"}


class Done(NamedTuple):
  """What is known of a run.

  Attributes:
    task: what was trained.
    side: where, a key of SIDES.
    results: of it, as they are in results.jsonl; none if it was not run.
  """

  task: Task
  side: str
  results: list[dict]


def table(runs: Iterable[Done]) -> str:
  """A row of Markdown for each task that has results."""
  names = "|".join(SIDES.values())
  header = f"task|train / dev|metric|{names}|seeds|CPU s|torch / ours"
  header += "|epochs, length, rate"
  lines = [f"| {header.replace('|', ' | ')} |"]
  lines.append("|---" * (7 + len(SIDES)) + "|")
  found = {}
  for run in runs:
    rows = found.setdefault(run.task, {side: [] for side in SIDES})
    rows[run.side] += run.results
  for task, sides in found.items():
    if any(sides.values()):
      lines.append(_row(task, sides))
  return "\n".join(lines)


def _row(task, sides):
  peers = (*sides[TORCH], *sides[SAME_ADAM])
  sizes = next((row for row in peers if "train" in row), None)
  means, seconds = [], []
  for rows in sides.values():
    means.append(
      " / ".join(
        mean_and_spread([row["scores"][name] for row in rows])
        for name in task.metrics
      )
    )
    times = [row["cpu_seconds"] for row in rows if "cpu_seconds" in row]
    seconds.append(f"{median(times):.0f}" if times else "-")
  cells = [
    task.name,
    f"{sizes['train']} / {sizes['dev']}" if sizes else "",
    " / ".join(name.replace("_", " ") for name in task.metrics),
    *means,
    ", ".join(str(len(rows)) for rows in sides.values()),
    ", ".join(seconds),
    _time_ratio(sides[OURS], sides[TORCH]),
    f"{task.epochs}, {task.length}, {task.learning_rate:g}",
  ]
  return f"| {' | '.join(cells)} |"


def _time_ratio(ours, theirs):
  """How much longer theirs took, by the clock: median and range of seeds."""
  times = [
    {row["seed"]: row["seconds"] for row in rows if "seconds" in row}
    for rows in (theirs, ours)
  ]
  seeds = times[0].keys() & times[1].keys()
  if not seeds:
    return "-"
  middle, spread = ratios(*([side[seed] for seed in seeds] for side in times))
  return f"{middle} ({spread})"


def pairs(runs: Iterable[Done]) -> Iterator[dict]:
  """A result of each task and type that both sides were timed on, for TIMES."""
  found = {}
  for run in runs:
    for row in run.results:
      if {"seconds", "cpu_seconds"} <= row.keys() and run.side in (OURS, TORCH):
        sides = found.setdefault(_case(row), {OURS: [], TORCH: []})
        sides[run.side].append(row)
  for case, sides in found.items():
    if all(sides.values()):
      last = sides[OURS][-1]
      origin = {name: last[name] for name in ORIGIN if name in last}
      yield {"case": case, **sides} | origin


def _case(row):
  plural = "s" * (row["epochs"] > 1)
  parts = [row["task"], row["dtype"], f"{row['epochs']} epoch{plural}"]
  return ", ".join(parts + ["by length"] * row["group_by_length"])


def _times(result):
  """The row of a pair."""
  sides = [result[OURS], result[TORCH]]
  sizes = result[TORCH][0]
  metrics = list(result[OURS][0]["scores"])
  yield (
    result["case"],
    f"{sizes['train']} / {sizes['dev']}",
    " / ".join(metrics).replace("_", " "),
    *(
      " / ".join(
        mean_and_spread([row["scores"][name] for row in rows])
        for name in metrics
      )
      for rows in sides
    ),
    *(
      ", ".join(f"{median(row[unit] for row in rows):.0f}" for rows in sides)
      for unit in ("seconds", "cpu_seconds")
    ),
    _time_ratio(*sides),
  )


TIMES = Table(
  "fine_tune",
  (
    *("task", "train / dev", "metric", "ours", "torch"),
    *("s, ours and torch", "CPU s", "torch's time over ours"),
  ),
  _times,
)
