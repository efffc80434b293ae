r"""Writes tables and a figure of docs/results.md from the finished runs.

python -m experiments.results --runs=work/results.jsonl
"""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags
from matplotlib.figure import Figure

from experiments import plan

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
_DOCS = Path(__file__).parents[1] / "docs"
_LEFT = "left_to_right"

flags.DEFINE_string("runs", None, "results.jsonl of the study.", required=True)
flags.DEFINE_string("docs_dir", str(_DOCS), "Where results.md is.")

# Title and source of each claim; the column of what is better there and of the
# other, each the ending of a task's name and a system; the paper's differences.
CLAIMS = (
  (
    "Pre-training helps",
    "all of the paper; `none` begins from random weights",
    {"base": ("", "base"), "none": ("", "none")},
    dict.fromkeys(("SQuAD", "NER", "QNLI", "MRPC", "MNLI", "SST-2")),
  ),
  (
    "Both directions beat one",
    "table 5, base against LTR & No NSP",
    {"base": ("", "base"), _LEFT: ("", _LEFT)},
    {"SQuAD": 10.7, "NER": None, "QNLI": 4.1, "MRPC": 9.2}
    | {"MNLI": 2.3, "SST-2": 0.6},
  ),
  (
    "Next-sentence prediction helps",
    "table 5, base against No NSP",
    {"base": ("", "base"), "no_nsp": ("", "no_nsp")},
    {"SQuAD": 0.6, "NER": None, "QNLI": 3.5, "MRPC": 0.2}
    | {"MNLI": 0.5, "SST-2": 0.1},
  ),
  (
    "A BiLSTM makes up for one direction in SQuAD only",
    "table 5, + BiLSTM against LTR & No NSP",
    {"bilstm": ("", "bilstm"), _LEFT: ("", _LEFT)},
    {"SQuAD": 7.1, "NER": None, "QNLI": -0.2, "MRPC": -1.8}
    | {"MNLI": 0.0, "SST-2": -0.5},
  ),
  (
    "More steps of pre-training help",
    "section C.1, 1M steps against 500k; here all against a quarter",
    {"all steps": ("", "base"), "a quarter": ("", "base.{quarter}")},
    {"NER": None, "SQuAD": None},
  ),
  (
    "Features of all layers beat the embeddings",
    "table 7, a BiLSTM on a frozen model",
    {
      "all layers": (".weighted_sum_all", "base"),
      "embeddings": (".embeddings", "base"),
    },
    {"NER": 4.5},
  ),
  (
    "Fine-tuning beats features",
    "table 7, fine-tuning against features of all layers",
    {"fine-tuned": ("", "base"), "all layers": (".weighted_sum_all", "base")},
    {"NER": 0.9},
  ),
  (
    "The fewer rows, the more pre-training helps",
    f"no such table; here the first rows of SST-2, {plan.ROWS_STEPS} steps",
    {"base": ("", "base"), "none": ("", "none")},
    {f"SST-2.{rows}": None for rows in plan.ROWS},
  ),
)

Points = dict[tuple[str, str], list[float]]


def main(_):
  lines = Path(flags.FLAGS.runs).read_text("utf-8").splitlines()
  write([json.loads(line) for line in lines], flags.FLAGS.docs_dir)


def points(lines: Sequence[dict]) -> Points:
  """Scores of each task and system in hundredths, one for each seed."""
  result = {}
  for line in lines:
    task, system, *_ = line["name"].split("/")
    if task in plan.TASKS:
      metric = plan.TASKS[task].metric
      value = line["results"][metric] * (1 if metric == "f1" else 100)
      result.setdefault((task, system), []).append(value)
  return result


def compare(scores: Points, first, second) -> tuple[float, float] | None:
  """Difference of means, and two standard errors of it.

  The deviation between seeds is pooled over the systems of a task: two seeds of
  one system alone would say little about it.

  Args:
    scores: of all runs.
    first: task and system.
    second: those that are subtracted.

  Returns:
    None where one was not run. The error is infinite where nothing of the task
    was run with two seeds.
  """
  if first not in scores or second not in scores:
    return None
  several = [
    values
    for (task, _), values in scores.items()
    if task.partition(".")[0] == first[0].partition(".")[0] and len(values) > 1
  ]
  freedom = sum(len(values) - 1 for values in several)
  squares = sum(statistics.variance(v) * (len(v) - 1) for v in several)
  variance = squares / freedom if freedom else float("inf")
  numbers = 1 / len(scores[first]) + 1 / len(scores[second])
  difference = statistics.mean(scores[first]) - statistics.mean(scores[second])
  return difference, 2 * (variance * numbers) ** 0.5


def verdict(effect: tuple[float, float], paper: float | None) -> str:
  """Verdict on an effect; with no number of the paper it should be positive."""
  if effect[1] == float("inf"):
    return "too few seeds"
  if abs(effect[0]) <= effect[1]:
    return "not seen at this size"
  same = effect[0] * (1 if paper is None else paper) > 0
  return "as the paper" if same else "the other way"


def _claim(scores, title, source, columns, tasks, quarter):
  rows = [["", *columns, "difference", "paper", ""], ["---"] * 6]
  missing = []
  for task, paper in tasks.items():
    cells = [
      (task + ending, system.format(quarter=quarter))
      for ending, system in columns.values()
    ]
    if effect := compare(scores, *cells):
      means = (
        f"{statistics.mean(scores[cell]):.1f} ({len(scores[cell])})"
        for cell in cells
      )
      difference = f"{effect[0]:+.1f} ± {effect[1]:.1f}".removesuffix(" ± inf")
      shown = "-" if paper is None else f"{paper:+.1f}"
      rows.append([task, *means, difference, shown, verdict(effect, paper)])
    else:
      missing.append(task)
  parts = [f"## {title}\n", f"Paper: {source}.\n"]
  parts += [_table(rows)] if len(rows) > 2 else []
  parts += [f"Not run: {', '.join(missing)}.\n"] if missing else []
  return "\n".join(parts)


def _table(rows):
  return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _pretraining(lines):
  names = ("masked_lm_loss", "masked_lm_accuracy", "next_sentence_accuracy")
  rows = [["", "seed", "loss", "accuracy", "next sentence", "CPU minutes"]]
  rows.append(["---"] * len(rows[0]))
  for line in lines:
    kind, system, *seed = line["name"].split("/")
    if kind == "pretrain":
      loss, accuracy, pairs = (line["results"].get(name, 0) for name in names)
      shown = [f"{loss:.2f}", f"{100 * accuracy:.1f} %"]
      shown.append(f"{100 * pairs:.1f} %" if pairs else "-")
      rows.append([system, *seed, *shown, f"{line['cpu_seconds'] / 60:.1f}"])
  return _table(rows)


def body(lines: Sequence[dict], steps: int) -> str:
  """All tables, a section for each claim; `steps` of a pre-training."""
  scores, quarter = points(lines), plan.quarters(steps)[0]
  commits = sorted({line["commit"][:9] for line in lines if line["commit"]})
  minutes = sum(line["cpu_seconds"] for line in lines) / 60
  parts = [
    f"{len(lines)} runs until {lines[-1]['finished']}, {minutes:.0f} CPU "
    f"minutes, commit {', '.join(commits)}; command and results of each: "
    "[results/study.jsonl](results/study.jsonl). SQuAD and NER: F1, others: "
    "accuracy. In brackets: the number of seeds. ± is two standard errors of "
    "the difference, of the deviation between seeds of pre-training, pooled "
    "over the systems of a task.\n",
    "![](results/study.png)\n",
    *(_claim(scores, *claim, quarter) for claim in CLAIMS),
    "## Every pre-training, on held-out text\n",
    "A left-to-right model predicts the next token: no number to compare.\n",
    _pretraining(lines),
  ]
  return "\n".join(parts)


def figure(lines: Sequence[dict], steps: int) -> Figure:
  """Losses of pre-training, and scores by steps and by rows."""
  scores = points(lines)
  result = Figure(figsize=(10, 3.2), layout="tight")
  loss, by_steps, by_rows = result.subplots(1, 3)
  for line in lines:
    if line["curve"]:
      _, system, seed = line["name"].split("/")
      color = f"C{list(plan.SYSTEMS).index(system)}"
      label = {"label": system} if seed == "1" else {}
      loss.plot(*zip(*line["curve"], strict=True), color=color, **label)
  for task in ("SQuAD", "NER"):
    for system in ("base", _LEFT):
      names = {0: "none"} if system == "base" else {}
      names |= {steps: system}
      names |= {step: f"{system}.{step}" for step in plan.quarters(steps)}
      values = {step: scores.get((task, name)) for step, name in names.items()}
      _dots(by_steps, values, f"{task}, {system}")
  for system in ("base", "none"):
    values = {rows: scores.get((f"SST-2.{rows}", system)) for rows in plan.ROWS}
    _dots(by_rows, values, system)
  loss.set(xlabel="steps of pre-training", ylabel="held-out loss (nats)")
  by_steps.set(xlabel="steps of pre-training", ylabel="F1")
  by_rows.set(xlabel="rows", xscale="log", ylabel="SST-2 accuracy")
  for ax in (loss, by_steps, by_rows):
    ax.grid(alpha=0.3)
    if ax.get_legend_handles_labels()[0]:
      ax.legend(fontsize=7)
  return result


def _dots(ax, values, label):
  """Each seed's value as a dot, and a line through the means."""
  values = {x: values[x] for x in sorted(values) if values[x]}
  means = [statistics.mean(seeds) for seeds in values.values()]
  if means:
    (line,) = ax.plot(list(values), means, label=label)
    for x, seeds in values.items():
      ax.plot([x] * len(seeds), seeds, ".", color=line.get_color())


def write(lines: Sequence[dict], docs: str) -> None:
  """Writes tables, figure and lines; what stands around the tables stays.

  Args:
    lines: of finished runs; a pre-training is among them.
    docs: the folder of results.md.
  """
  trained = (r["results"] for r in lines if r["name"].startswith("pretrain/"))
  steps = int(max(results["global_step"] for results in trained))
  path = Path(docs, "results.md")
  text = path.read_text("utf-8") if path.exists() else f"{BEGIN}\n{END}\n"
  before, _, rest = text.partition(BEGIN)
  tables = f"{BEGIN}\n\n{body(lines, steps)}\n{END}"
  path.write_text(before + tables + rest.partition(END)[2], "utf-8")
  folder = path.parent / "results"
  folder.mkdir(exist_ok=True)
  saved = "".join(json.dumps(line) + "\n" for line in lines)
  (folder / "study.jsonl").write_text(saved, "utf-8")
  figure(lines, steps).savefig(folder / "study.png", dpi=80)


if __name__ == "__main__":
  app.run(main)
