r"""Runs the study of plan.py, one run after the other.

  python -m experiments.run --text='prose/*.txt' --glue_dir=$GLUE_DIR \
    --squad_dir=$SQUAD_DIR --ner_dir=$BC5CDR_DIR --work_dir=work

Every finished run is a line of results.jsonl in --work_dir; the same command
goes on after the last of them. docs/results.md is written by

  python -m experiments.results --runs=work/results.jsonl
"""

import glob
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from absl import app, flags, logging

from experiments import plan
from modeling.config import BertConfig
from training import run_record

FLAGS = flags.FLAGS
ROOT = Path(__file__).parents[1]

flags.DEFINE_string("text", None, "Files of prose, a glob.", required=True)
flags.DEFINE_string("glue_dir", "", "GLUE's folders are in it.")
flags.DEFINE_string("squad_dir", "", "train-v1.1.json and dev-v1.1.json.")
flags.DEFINE_string("ner_dir", "", "train.tsv, devel.tsv: words and tags.")
flags.DEFINE_string("work_dir", None, "Folder of the runs.", required=True)
flags.DEFINE_string("only", "", "Pattern that is in the names of the runs.")
flags.DEFINE_integer("num_steps", plan.STEPS, "Of every pre-training.", 4)


def main(_):
  os.makedirs(FLAGS.work_dir, exist_ok=True)
  config = BertConfig.preset(plan.SIZE, plan.VOCABULARY, from_scratch=True)
  config.to_json(os.path.join(FLAGS.work_dir, "bert_config.json"))
  path = os.path.join(FLAGS.work_dir, "results.jsonl")
  finished = {line["name"] for line in read(path)}
  runs = [
    r for r in plan.runs(FLAGS.num_steps) if re.search(FLAGS.only, r.name)
  ]
  runs = [*map(plan.Run._make, plan.PREPARATIONS.items()), *runs]
  for number, run in enumerate(runs, 1):
    if run.name in finished:
      continue
    logging.info("%d of %d: %s", number, len(runs), run.name)
    line = execute(run)
    with open(path, "a", encoding="utf-8") as file:
      file.write(json.dumps(line) + "\n")


def read(path: str | Path) -> list[dict]:
  """Lines of results.jsonl; none if it is not there."""
  if not os.path.exists(path):
    return []
  with open(path, encoding="utf-8") as file:
    return [json.loads(line) for line in file]


def folders() -> dict[str, str]:
  """Values of placeholders in commands; texts are joined by commas.

  Every 14th text is held out.
  """
  paths = sorted(glob.glob(os.path.abspath(FLAGS.text)))
  if len(paths) < 14:
    raise app.UsageError(f"--text={FLAGS.text} are {len(paths)} files, not 14")
  held_out = paths[13::14]
  return {
    "text": ",".join(path for path in paths if path not in held_out),
    "held_out_text": ",".join(held_out),
    "work": os.path.abspath(FLAGS.work_dir),
    "glue": os.path.abspath(FLAGS.glue_dir),
    "ner": os.path.abspath(FLAGS.ner_dir),
  }


def execute(run: plan.Run) -> dict:
  """Runs one to its end; returns its line.

  Raises:
    ChildProcessError: it failed.
  """
  prepare_files(run)
  program, _, words = run.command.partition(" ")
  if program.startswith("run_"):
    words += " --bert_config_file={work}/bert_config.json"
    words += f" --output_dir={{work}}/{run.name}"
  command = f"{program}.py {words}"
  folder = Path(FLAGS.work_dir, run.name)
  folder.parent.mkdir(parents=True, exist_ok=True)
  actual = [word.format_map(folders()) for word in shlex.split(command)]
  before = os.times()
  with open(f"{folder}.log", "a", encoding="utf-8") as file:
    result = subprocess.run(
      [sys.executable, *actual], cwd=ROOT, stderr=file, check=False
    )
  if result.returncode:
    raise ChildProcessError(f"{run.name} failed: {folder}.log says why")
  after = os.times()
  line = {
    "name": run.name,
    "command": "python " + re.sub(r"{(\w+)}", _shell_variable, command),
    "cpu_seconds": round(sum(after[2:4]) - sum(before[2:4])),
    "finished": time.strftime("%Y-%m-%d %H:%M"),
    "commit": run_record.commit(),
    "results": scores(folder),
    "curve": curve(folder) if program == "run_pretraining" else [],
  }
  if program.startswith("run_") and program != "run_pretraining":
    shutil.rmtree(folder)  # large, and nothing starts from it
  return line


def _shell_variable(match):
  return f"${match[1].upper()}"


def prepare_files(run: plan.Run) -> None:
  """Makes the files that a command reads and that no program makes."""
  work, glue = Path(FLAGS.work_dir), Path(FLAGS.glue_dir)
  for rows in plan.ROWS:
    folder = work / "rows" / str(rows)
    if f"/rows/{rows} " in run.command and not folder.exists():
      folder.mkdir(parents=True)
      shutil.copy(glue / "SST-2" / "dev.tsv", folder)
      lines = (glue / "SST-2" / "train.tsv").read_text("utf-8").split("\n")
      text = "\n".join([*lines[: 1 + rows], ""])
      (folder / "train.tsv").write_text(text, "utf-8")
  if run.command.startswith("run_squad"):
    (work / "squad").mkdir(exist_ok=True)
    for name in ("train-v1.1.json", "dev-v1.1.json"):
      if not (work / "squad" / name).exists():
        data = json.loads(Path(FLAGS.squad_dir, name).read_text("utf-8"))
        for article in data["data"]:
          paragraphs = article["paragraphs"]
          article["paragraphs"] = [x for p in paragraphs for x in passages(p)]
          if name.startswith("train"):  # of several answers the first
            for passage in article["paragraphs"]:
              for question in passage["qas"]:
                del question["answers"][1:]
        (work / "squad" / name).write_text(json.dumps(data), "utf-8")


def passages(paragraph: dict, length: int = plan.PASSAGE) -> list[dict]:
  """Cuts a paragraph of SQuAD between sentences.

  A question stays with the passage that has its first answer.

  Args:
    paragraph: context and questions with answers.
    length: of a passage in characters, unless a sentence is longer.
  """
  context = paragraph["context"]
  ends = [match.end() for match in re.finditer(r"[.?!] |$", context)]
  begins = [0]
  for end, following in itertools.pairwise(ends):
    if following - begins[-1] > length:
      begins.append(end)
  result = []
  for begin, end in itertools.pairwise([*begins, len(context)]):
    questions = []
    for question in paragraph["qas"]:
      answers = [
        answer | {"answer_start": answer["answer_start"] - begin}
        for answer in question["answers"]
        if begin <= answer["answer_start"] <= end - len(answer["text"])
      ]
      if begin <= question["answers"][0]["answer_start"] < end and answers:
        questions.append(question | {"answers": answers})
    result.append({"context": context[begin:end], "qas": questions})
  return result


def scores(folder: Path) -> dict[str, float]:
  """Results of a run; none if it has no evaluation."""
  squad, others = folder / "squad_scores.json", folder / "eval_results.txt"
  if squad.exists():
    return json.loads(squad.read_text("utf-8"))
  lines = others.read_text("utf-8").splitlines() if others.exists() else []
  pairs = (line.split(" = ") for line in lines)
  return {name: float(value) for name, value in pairs}


def curve(folder: Path) -> list[list[float]]:
  """Pairs of step and masked-LM loss on the held-out text."""
  name = "eval_masked_lm_loss"
  result = {
    line["step"]: line[name]
    for line in read(folder / "metrics.jsonl")
    if name in line
  }
  return [list(pair) for pair in result.items()]


if __name__ == "__main__":
  app.run(main)
