r"""Runs the study of plan.py, one run after the other.

  python -m experiments.run --text='novels/*.txt' --squad='squad/*.json' \
    --glue_dir=$GLUE_DIR --ner_dir=$BC5CDR_DIR --encoder_dir=$MINILM_DIR \
    --peer_python=torch/bin/python --work_dir=work

Each finished run is a line of --results; the same command goes on after the
last of them. What is missing in --work_dir is made again, a pre-training only
if there are runs left that start from it. docs/results.md is written by

  python -m experiments.results
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
from pathlib import Path

from absl import app, flags, logging

from benchmarks.results import origin
from experiments import plan

FLAGS = flags.FLAGS
ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "study.jsonl"

flags.DEFINE_string("text", None, "Files of prose, a glob.", required=True)
flags.DEFINE_string("squad", None, "Files of SQuAD, a glob.", required=True)
flags.DEFINE_string("glue_dir", "", "GLUE's folders are in it.")
flags.DEFINE_string("ner_dir", "", "train.tsv, devel.tsv: words and tags.")
flags.DEFINE_string("encoder_dir", "", "A BERT in Hugging Face's format.")
flags.DEFINE_string("peer_python", "", "Python that has torch, transformers.")
flags.DEFINE_string("work_dir", None, "Folder of the runs.", required=True)
flags.DEFINE_string("results", str(RESULTS), "Lines of finished runs.")
flags.DEFINE_string("only", "", "Pattern that is in the names of the runs.")
flags.DEFINE_integer("num_steps", plan.STEPS, "Of every pre-training.", 40)


def main(_):
  os.makedirs(FLAGS.work_dir, exist_ok=True)
  write_files(Path(FLAGS.work_dir))
  for path, command in plan.PREPARATIONS.items():
    is_possible = FLAGS.encoder_dir or "{encoder}" not in command
    if is_possible and not Path(FLAGS.work_dir, path).exists():
      execute(plan.Run(path, command))
  runs = {run.name: run for run in plan.runs(FLAGS.num_steps)}
  for number, run in enumerate(runs.values(), 1):
    finished = {line["name"] for line in read(FLAGS.results)}
    if run.name in finished or not re.search(FLAGS.only, run.name):
      continue
    logging.info("%d of %d: %s", number, len(runs), run.name)
    remove_checkpoints([r for r in runs.values() if r.name not in finished])
    for start, step in checkpoints(run):
      if not Path(FLAGS.work_dir, start, f"{step}.index").exists():
        logging.info("%s again, for its checkpoint %s", start, step)
        shutil.rmtree(Path(FLAGS.work_dir, start), ignore_errors=True)
        execute(runs[start])
    line = execute(run)
    with open(FLAGS.results, "a", encoding="utf-8") as file:
      file.write(json.dumps(line) + "\n")


def read(path: str | Path) -> list[dict]:
  """Objects of a file of JSON lines; none if it is not there."""
  if not os.path.exists(path):
    return []
  with open(path, encoding="utf-8") as file:
    return [json.loads(line) for line in file]


def folders() -> dict[str, str]:
  """Values of placeholders in commands; texts are joined by commas.

  Every 14th text is held out. Contexts of SQuAD's training articles are texts.
  """
  paths = sorted(glob.glob(os.path.abspath(FLAGS.text)))
  paths += sorted(glob.glob(os.path.abspath(f"{FLAGS.work_dir}/text/*.txt")))
  held_out = paths[13::14]
  return {
    "text": ",".join(path for path in paths if path not in held_out),
    "held_out_text": ",".join(held_out),
    "work": os.path.abspath(FLAGS.work_dir),
    "glue": os.path.abspath(FLAGS.glue_dir),
    "ner": os.path.abspath(FLAGS.ner_dir),
    "encoder": os.path.abspath(FLAGS.encoder_dir),
    "torch": FLAGS.peer_python,
  }


def checkpoints(run: plan.Run) -> list[tuple[str, str]]:
  """Names of the pre-trainings and checkpoints that a run starts from."""
  return re.findall(r"{work}/(pretrain/[^ ,]*)/([^ ,/]*)", run.command)


def remove_checkpoints(runs: list[plan.Run]) -> None:
  """Removes those of complete pre-trainings that none of `runs` needs."""
  needed = {start for run in runs for start in checkpoints(run)}
  last = f"model.ckpt-{FLAGS.num_steps}"
  for path in Path(FLAGS.work_dir).glob(f"pretrain/*/*/{last}.index"):
    start = path.parent.relative_to(FLAGS.work_dir).as_posix()
    for file in path.parent.glob("model.ckpt-*"):
      if (start, file.stem) not in needed:
        file.unlink()


def execute(run: plan.Run) -> dict:
  """Runs one to its end; returns its line.

  Raises:
    ChildProcessError: it failed.
  """
  program, _, words = run.command.partition(" ")
  folder = Path(FLAGS.work_dir, run.name)
  if program != "-m":
    program += ".py"
  if program.startswith("run_"):
    words += f" --output_dir={{work}}/{run.name}"
  elif program == "-m":
    words += f" --work_dir={{work}}/{run.name}"
  command = f"{program} {words}"
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
    **origin(),
    "results": scores(folder),
    "curve": curve(folder),
  }
  if not run.name.startswith("pretrain") and folder.is_dir():
    shutil.rmtree(folder)  # large, and nothing starts from it
  return line


def _shell_variable(match):
  return f"${match[1].upper()}"


def write_files(work: Path) -> None:
  """Writes the files that runs read and that no program makes, once."""
  texts = {
    f"{name}.json": json.dumps(config.to_dict())
    for name, config in plan.CONFIGS.items()
  }
  articles = []
  for path in glob.glob(FLAGS.squad):
    articles += json.loads(Path(path).read_text("utf-8"))["data"]
  articles.sort(key=lambda article: article["title"])
  dev = articles[1::6]  # eight of 48
  train = [article for article in articles if article not in dev]
  for name, part in (("train", train), ("dev", dev)):
    for folder, length in (("squad", sys.maxsize), ("passages", plan.PASSAGE)):
      data = [
        article | {"paragraphs": cut(article, length, name == "train")}
        for article in part
      ]
      texts[f"{folder}/{name}.json"] = json.dumps({"data": data})
  for number, article in enumerate(train):
    contexts = (part["context"] for part in article["paragraphs"])
    texts[f"text/{number:03}.txt"] = "\n\n".join(contexts) + "\n"
  for rows, task in itertools.product(plan.ROWS, plan.ROWS_TASKS):
    for name in ("train", "dev"):
      path = Path(FLAGS.glue_dir, task, f"{name}.tsv")
      lines = path.read_text("utf-8").split("\n") if path.exists() else []
      lines = [*lines[: 1 + rows], ""] if name == "train" else lines
      texts[f"rows/{rows}/{task}/{name}.tsv"] = "\n".join(lines)
  for path, text in texts.items():
    if not (work / path).exists():
      (work / path).parent.mkdir(parents=True, exist_ok=True)
      (work / path).write_text(text, "utf-8")


def cut(article: dict, length: int, first_answer: bool) -> list[dict]:
  """Paragraphs of an article of SQuAD, cut between sentences.

  A question stays with the passage that has its first answer.

  Args:
    article: with paragraphs of contexts and questions with answers.
    length: of a passage in characters, unless a sentence is longer.
    first_answer: keep the first answer alone, as in SQuAD's training set.
  """
  result = []
  for paragraph in article["paragraphs"]:
    context = paragraph["context"]
    ends = [match.end() for match in re.finditer(r"[.?!] |$", context)]
    begins = [0]
    for end, following in itertools.pairwise(ends):
      if following - begins[-1] > length:
        begins.append(end)
    for begin, end in itertools.pairwise([*begins, len(context)]):
      questions = []
      for question in paragraph["qas"]:
        answers = [
          answer | {"answer_start": answer["answer_start"] - begin}
          for answer in question["answers"][: 1 if first_answer else None]
          if begin <= answer["answer_start"] <= end - len(answer["text"])
        ]
        if begin <= question["answers"][0]["answer_start"] < end and answers:
          questions.append(question | {"answers": answers})
      result.append({"context": context[begin:end], "qas": questions})
  return result


def scores(folder: Path) -> dict[str, float]:
  """Results of a run; none if it has no evaluation."""
  for path in (folder / "squad_scores.json", *folder.glob("*/result.json")):
    if path.exists():
      values = json.loads(path.read_text("utf-8"))
      return values.get("scores", values)
  path = folder / "eval_results.txt"
  lines = path.read_text("utf-8").splitlines() if path.exists() else []
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
