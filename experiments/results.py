"""docs/results.md and its figures, from the lines of finished experiments."""

import json
import os
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from experiments import plan

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
_EMPTY = f"# Results of the small experiments\n\n{BEGIN}\n{END}\n"
_METRIC = {"SST-2": "eval_accuracy", "QQP": "eval_accuracy", "ner": "eval_f1"}
_COLUMNS = {"SST-2": "SST-2 accuracy", "QQP": "QQP accuracy", "ner": "names F1"}
_CURVES = ("base", "left_to_right")
# The paper's: SST-2 / QNLI accuracy of table 5; names F1, fine-tuned / feature-
# based, of table 8, on CoNLL-2003.
_TABLE_5 = {
  "base": "92.7 / 88.4",
  "no_nsp": "92.6 / 84.9",
  "left_to_right": "92.1 / 84.3",
  "bilstm": "91.6 / 84.1",
}
_TABLE_8 = {
  "80_10_10": "95.4 / 94.9",
  "100_0_0": "94.9 / 94.0",
  "80_0_20": "95.2 / 94.6",
  "80_20_0": "95.2 / 94.7",
  "0_20_80": "94.8 / 94.6",
  "0_0_100": "94.9 / 94.6",
}


def read(path: str) -> list[dict]:
  """Lines of results.jsonl; none if it is not there."""
  if not os.path.exists(path):
    return []
  with open(path, encoding="utf-8") as file:
    return [json.loads(line) for line in file]


def scores(
  lines: Sequence[dict],
  task: str,
  system: str,
  seeds: Sequence[int] = plan.SEEDS,
) -> list[float]:
  """What the seeds of a system have in a task, in percent."""
  names = [f"{task}/{system}/{seed}" for seed in seeds]
  found = [line["results"] for line in lines if line["name"] in names]
  return [100 * result[_METRIC[task]] for result in found]


def starts(lines: Sequence[dict], task: str, system: str) -> list[float]:
  """The same of its pre-trainings, each of which was fine-tuned with seed 1."""
  names = [plan.anew(system, seed) for seed in (1, *plan.OTHER_STARTS)]
  return [score for name in names for score in scores(lines, task, name, [1])]


def summary(values: Sequence[float]) -> str:
  """Mean, standard deviation and number of values."""
  if not values:
    return "not run"
  spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
  return f"{statistics.mean(values):.1f}{spread} ({len(values)})"


def tables(lines: Sequence[dict]) -> str:
  """All tables, as Markdown."""

  def tuned(task, before=""):
    return lambda name: summary(scores(lines, task, before + name))

  def other(numbers):
    return lambda name: numbers.get(name, "-")

  def started(task):
    return lambda name: summary(starts(lines, task, name))

  pretrained = partial(_pretrained, lines)
  names = [line["name"] for line in lines if line["name"].startswith("pre")]
  columns = {column: tuned(task) for task, column in _COLUMNS.items()}
  chances = {column: started(task) for task, column in _COLUMNS.items()}
  features = tuned("ner", "features_")
  return "\n".join(
    (
      "## Pre-training tasks (table 5)\n",
      _table(
        plan.SYSTEMS,
        columns | {"paper: SST-2 / QNLI": other(_TABLE_5)},
      ),
      f"## {1 + len(plan.OTHER_STARTS)} pre-trainings, each fine-tuned once\n",
      _table(plan.REPEATED, chances),
      f"## Deep and shallow after {plan.TIMES_LONGER} times the steps\n",
      _table(
        plan.DEEP_AND_SHALLOW,
        {
          "names F1": tuned("ner"),
          "after more": lambda name: tuned("ner")(plan.long(name)),
        },
      ),
      "## Training steps (figure 5)\n\n![](results/steps.png)\n",
      "## Model size (table 6)\n",
      _table(("base", *plan.SIZES), {"loss": pretrained("loss")} | columns),
      "## Masks (table 8): [MASK], same, random\n",
      _table(
        (*plan.MIXES, "whole_words"),
        {"names F1": tuned("ner"), "feature-based": features}
        | {"paper: CoNLL-2003": other(_TABLE_8)},
      ),
      "## Features of a frozen model (table 7)\n",
      _table(plan.FEATURES, {"names F1": features}),
      "## Every pre-training, on held-out text\n",
      "![](results/pretraining.png)\n",
      _table(
        [name.removeprefix("pretrain/") for name in names],
        {key: pretrained(key) for key in ("steps", "loss", "accuracy")},
      ),
    )
  )


def _table(names, columns):
  rows = [["", *columns], ["---"] * (1 + len(columns))]
  rows += [[name, *(say(name) for say in columns.values())] for name in names]
  return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _pretrained(lines, key):
  """From a name to the steps, loss or accuracy of that pre-training."""
  said = {}
  for line in lines:
    if line["name"].startswith("pretrain/"):
      said[line["name"].removeprefix("pretrain/")] = {
        "loss": f"{line['results']['masked_lm_loss']:.3f}",
        "accuracy": f"{100 * line['results']['masked_lm_accuracy']:.1f}",
        "steps": f"{line['results']['global_step']:,.0f}",
      }[key]
  return lambda name: said.get(name, "not run")


def draw(lines: Sequence[dict], folder: str, steps: int) -> None:
  """Writes the figures, where matplotlib is installed."""
  try:
    from matplotlib.figure import Figure  # noqa: PLC0415, an extra
  except ImportError:
    return
  figure = Figure(figsize=(8, 3.2), layout="tight")
  for ax, task in zip(figure.subplots(1, 2), ("SST-2", "ner"), strict=True):
    _draw_steps(ax, lines, task, steps)
  figure.savefig(f"{folder}/steps.png", dpi=90)
  figure = Figure(figsize=(10, 4.5), layout="tight")
  curves = {
    line["name"].removeprefix("pretrain/"): line["curve"]
    for line in lines
    if line["curve"] and line["curve"][-1][0] <= steps
    if plan.ANEW not in line["name"]
  }
  words, tokens = figure.subplots(1, 2)
  for number, (name, curve) in enumerate(curves.items()):
    ax = tokens if name in plan.LANGUAGE_MODELS else words
    style = {"color": f"C{number % 10}", "ls": ("-", "--")[number // 10 % 2]}
    ax.plot(*zip(*curve, strict=True), label=name, **style)
  _finish(words, "accuracy of masked words")
  _finish(tokens, "accuracy of next tokens")
  figure.savefig(f"{folder}/pretraining.png", dpi=90)


def _draw_steps(ax, lines, task, steps):
  """Each seed's score in a task after a part of the pre-training."""
  for name in _CURVES:
    points = [(step, f"_{step}") for step in plan.along_the_way(steps)]
    for step, end in [*points, (steps, "")]:
      found = scores(lines, task, name + end)
      color = f"C{_CURVES.index(name)}"
      label = name if not end else None
      ax.plot([step] * len(found), found, ".", color=color, label=label)
  _finish(ax, _COLUMNS[task] + ", each seed")


def _finish(ax, what):
  ax.set(xlabel="steps of pre-training", ylabel=what)
  ax.grid(alpha=0.3)
  if ax.get_legend_handles_labels()[0]:
    ax.legend(fontsize=7)


def write(lines: Sequence[dict], docs: str, steps: int) -> None:
  """Writes tables, figures and the lines; what stands around the tables stays.

  Args:
    lines: of finished experiments.
    docs: the folder of results.md.
    steps: of every pre-training.
  """
  path = Path(docs) / "results.md"
  text = path.read_text(encoding="utf-8") if path.exists() else _EMPTY
  before, _, rest = text.partition(BEGIN)
  commits = sorted({line["commit"][:9] for line in lines if line["commit"]})
  note = (
    f"{len(lines)} runs until {lines[-1]['finished']}, commits "
    f"{', '.join(commits)}; {steps:,} steps of pre-training where nothing else "
    "is said. Mean ± standard deviation (seeds). Command, time by the clock "
    "(with other jobs beside) and commit of each: "
    "[results/runs.jsonl](results/runs.jsonl).\n"
  )
  body = f"{BEGIN}\n\n{note}\n{tables(lines)}\n{END}"
  path.write_text(before + body + rest.partition(END)[2], encoding="utf-8")
  folder = path.parent / "results"
  folder.mkdir(exist_ok=True)
  said = "".join(json.dumps(line) + "\n" for line in lines)
  (folder / "runs.jsonl").write_text(said, encoding="utf-8")
  draw(lines, str(folder), steps)
