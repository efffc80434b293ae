r"""Fills tables and figures of docs/results.md: python -m experiments.results.

claims.tsv lists the paper's claims. Its column `difference` has terms with
signs; a term is a suffix of the task's name, often empty, a slash, and a
system. The column `tasks` has tasks, some with the paper's difference. The
column `figure` has patterns for names of runs; a pattern's group is the x
value. A table lies between <!-- name --> and <!-- /name --> in results.md.
"""

import math
import re
from collections import namedtuple
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev, variance

from matplotlib.figure import Figure

from experiments import plan, run

Scores = dict[tuple[str, str], list[float]]  # {(task, system): score per seed}
Effect = tuple[float, float]  # difference, two standard errors
Claim = namedtuple("Claim", "name claim source difference tasks figure")


def claims() -> list[Claim]:
  """Reads claims.tsv, in the order of the document."""
  text = Path(__file__).with_name("claims.tsv").read_text("utf-8")
  return [Claim(*line.split("\t")) for line in text.splitlines()][1:]


def points(lines: Iterable[dict]) -> Scores:
  """Scores of each task and system in percent, one for each seed."""
  result = {}
  for line in lines:
    task, system, _ = line["name"].split("/")
    if metric := plan.METRICS.get(task):
      value = line["results"][metric] * (1 if metric == "f1" else 100)
      result.setdefault((task, system), []).append(value)
  return result


def compare(scores: Scores, terms) -> Effect | None:
  """Signed sum of the terms' means, and twice the sum's standard error.

  The variance between seeds is pooled over all systems of a task, because two
  seeds of one system say little. Tasks A.x and A.y count as one. The error is
  infinite if no system has two seeds. Returns None if a term was not run.
  """
  if any(cell not in scores for _, cell in terms):
    return None
  error = 0
  for _, cell in terms:
    seeds = [
      values
      for (task, _), values in scores.items()
      if task.partition(".")[:2] == cell[0].partition(".")[:2] and values[1:]
    ]
    squares = sum(variance(v) * (len(v) - 1) for v in seeds)
    freedom = sum(len(values) - 1 for values in seeds)
    pooled = squares / freedom if freedom else math.inf
    error += pooled / len(scores[cell])
  total = sum(sign * mean(scores[cell]) for sign, cell in terms)
  return total, 2 * error**0.5


def verdict(effect: Effect | None, paper: float | None) -> str:
  """Compares an effect with `paper`, the paper's effect; None: positive."""
  if effect is None or effect[1] == math.inf:
    return "one seed so far" if effect else "no comparison yet"
  if abs(effect[0]) <= effect[1]:
    return "not seen at this size"
  return "as the paper" if effect[0] * (paper or 1) > 0 else "the opposite"


def rows(claim: Claim, scores: Scores) -> list[tuple[str, ...]]:
  """Rows of a claim's table: each task, then the mean over finished tasks.

  Cells: task, means with numbers of seeds, the paper's difference, difference
  here, verdict.
  """
  terms = claim.difference.split()
  result, papers, effects = [], [], []
  signs = [-1 if sign == "-" else 1 for sign in ["+", *terms[1::2]]]
  for word in claim.tasks.split():
    task, _, number = word.partition("=")
    paper = float(number) if number else None
    cells = [tuple(f"{task}{term}".split("/")) for term in terms[::2]]
    effect = compare(scores, list(zip(signs, cells, strict=True)))
    seeds = map(scores.get, cells)
    means = (f"{mean(s):.1f} ({len(s)})" if s else "-" for s in seeds)
    result.append((task, *means, *_shown(effect, paper)))
    if number:
      papers.append(paper)
    if effect:
      effects.append(effect)
  paper = mean(papers) if papers else None
  effect = None
  if effects:
    totals, errors = zip(*effects, strict=True)
    effect = mean(totals), math.hypot(*errors) / len(errors)
  blank = ("",) * len(signs)
  return [*result, ("mean", *blank, *_shown(effect, paper))]


def _shown(effect, paper):
  shown = "{:+.1f} ± {:.1f}".format(*effect) if effect else "-"
  number = "-" if paper is None else f"{paper:+.1f}"
  return number, shown.removesuffix(" ± inf"), verdict(effect, paper)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
  """Makes a table in Markdown."""
  lines = (head, ("---",) * len(head), *rows)
  return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def pretrainings(lines: Sequence[dict]) -> str:
  """Table of the scores of pre-trained models on held-out text.

  The scores are means over seeds.
  """
  result = []
  for name in plan.PRETRAININGS:
    own = [r for r in lines if r["name"].startswith(f"pretrain/{name}/")]
    if own:
      loss, pairs = (
        mean(line["results"].get(key, 0) for line in own)
        for key in ("masked_lm_loss", "next_sentence_accuracy")
      )
      shown = f"{math.exp(loss):.1f}", f"{100 * pairs:.1f} %" if pairs else "-"
      result.append((name, str(len(own)), *shown))
  return table(("", "seeds", "perplexity", "next sentence"), result)


def spread(scores: Scores) -> str:
  """Table of spreads, a row for each task and system with five seeds.

  Tasks whose names begin with Encoder get a row for any number of seeds.
  """
  result = []
  for cell, seeds in scores.items():
    if len(seeds) == 5 or cell[0].startswith("Encoder"):
      values = [f"{f(seeds):.1f}" for f in (mean, min, max)]
      deviation = f"{stdev(seeds):.1f}" if seeds[1:] else "-"
      result.append((*cell, str(len(seeds)), *values, deviation))
  return table("task system seeds mean worst best deviation".split(), result)


def figure(claim: Claim, scores: Scores) -> Figure:
  """Draws the scores of all seeds, and means."""
  result = Figure(figsize=(7, 2.8), layout="constrained")
  ax = result.subplots()
  for label, pattern in re.findall(r"([^:;]+): ([^;]+)", claim.figure):
    values = {}
    for cell, seeds in scores.items():
      if match := re.fullmatch(pattern, "/".join(cell)):
        x = match[1] or str(plan.STEPS)
        values[int(x) if x.isdigit() else x] = seeds
    if values:
      is_number = isinstance(next(iter(values)), int)
      values = dict(sorted(values.items())) if is_number else values
      means = list(map(mean, values.values()))
      style = "-" if is_number else "_"
      (line,) = ax.plot(list(values), means, style, label=label.strip(), ms=14)
      for x, seeds in values.items():
        ax.plot([x] * len(seeds), seeds, ".", color=line.get_color())
      if is_number:
        unit = "rows" if claim.name == "rows" else "steps of pre-training"
        ax.set(xscale="log", xlabel=unit)
  ax.set_ylabel("F1 or accuracy")
  ax.grid(alpha=0.3)
  ax.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
  return result


def write(lines: Sequence[dict], docs: Path) -> None:
  """Fills the blocks of results.md, and writes figures to results/."""
  scores = points(lines)
  commits = sorted({(line["commit"] or "unknown")[:9] for line in lines})
  planned = {run.name for run in plan.runs()}
  number = sum(line["name"] in planned for line in lines)
  hours = sum(line["cpu_seconds"] for line in lines) / 3600
  blocks = {
    "state": f"{number} of {len(planned)} runs, {hours:.1f} CPU hours, "
    f"commits {', '.join(commits)}, until {lines[-1]['date']}.\n",
    "pretrainings": pretrainings(lines),
    "spread": spread(scores),
  }
  summary = []
  for claim in claims():
    own = rows(claim, scores)
    link = f"[{claim.claim}](#{claim.name})"
    summary.append((link, claim.source, *own[-1][-3:]))
    terms = (term.strip("/.-") for term in claim.difference.split()[::2])
    head = ("", *terms, "paper", "difference", "verdict")
    blocks[claim.name] = table(head, own)
    if claim.figure and own[-1][-2] != "-":  # there is a difference
      path = f"results/{claim.name}.png"
      figure(claim, scores).savefig(docs / path, dpi=80)
      blocks[claim.name] += f"\n![]({path})\n"
  blocks["claims"] = table("claim source paper here verdict".split(), summary)
  text = (docs / "results.md").read_text("utf-8")
  for name, block in blocks.items():
    before, begin, rest = text.partition(f"<!-- {name} -->\n")
    end = f"<!-- /{name} -->"
    text = f"{before}{begin}\n{block}\n{end}{rest.partition(end)[2]}"
  (docs / "results.md").write_text(text, "utf-8")


if __name__ == "__main__":
  write(run.read(run.RESULTS), run.RESULTS.parents[1])
