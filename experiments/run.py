r"""Runs the commands of experiments/plan.py, one after the other.

  python -m experiments.run --text='novels/*.txt' --squad='squad/*.json' \
    --glue_dir=$GLUE_DIR --ner_dir=$BC5CDR_DIR --encoder_dir=$MINILM_DIR \
    --peer_python=torch/bin/python --work_dir=work

Each finished run is a line of --results, and the same command continues after
the last line. This command writes docs/results.md:

  python -m experiments.results
"""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from absl import app, flags, logging

from benchmarks.results import origin
from experiments import plan
from storage import files

FLAGS = flags.FLAGS
ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "study.jsonl"

flags.DEFINE_string("text", None, "Files of prose, a glob.", required=True)
flags.DEFINE_string("squad", None, "Files of SQuAD, a glob.", required=True)
flags.DEFINE_string("glue_dir", "", "Folder with a folder for each GLUE task.")
flags.DEFINE_string("ner_dir", "", "train.tsv, devel.tsv: words and tags.")
flags.DEFINE_string("encoder_dir", "", "A BERT in Hugging Face's format.")
flags.DEFINE_string("peer_python", "", "Python that has torch, transformers.")
flags.DEFINE_string("work_dir", None, "Folder of the runs.", required=True)
flags.DEFINE_string("results", str(RESULTS), "Lines of finished runs.")
flags.DEFINE_string("only", "", "Pattern: do only runs with matching names.")
flags.DEFINE_float("scale", 1.0, "Factor for pre-training steps.", 0.01)


def main(_):
  os.makedirs(FLAGS.work_dir, exist_ok=True)
  write_files(Path(FLAGS.work_dir))
  for path, command in plan.PLAN["preparations"].items():
    is_possible = FLAGS.encoder_dir or "{encoder}" not in command
    if is_possible and not Path(FLAGS.work_dir, path).exists():
      execute(plan.Run(path, command))
  runs = [*plan.runs(FLAGS.scale)]
  finished = {line["name"] for line in read(FLAGS.results)}
  for number, run in enumerate(runs, 1):
    if run.name in finished or not re.search(FLAGS.only, run.name):
      continue
    logging.info("%d of %d: %s", number, len(runs), run.name)
    remove_checkpoints(finished, [r for r in runs if r.name not in finished])
    line = execute(run)
    finished.add(run.name)
    with open(FLAGS.results, "a", encoding="utf-8") as file:
      file.write(json.dumps(line) + "\n")


def read(path: str | Path) -> list[dict]:
  """Objects of a file of JSON lines; none if the file is missing."""
  text = Path(path).read_text("utf-8") if os.path.exists(path) else ""
  return [json.loads(line) for line in text.splitlines()]


def placeholders() -> dict[str, str]:
  """Values of {work}, {text}, ... in a plan's commands, by name.

  Commas separate the paths of texts. Every 14th text is held out. The texts
  include the contexts of SQuAD's training articles.
  """
  paths = files.expand(os.path.abspath(FLAGS.text))
  paths += sorted(map(str, Path(FLAGS.work_dir, "text").resolve().glob("*")))
  held_out = paths[13::14]
  flag_values = {
    name: os.path.abspath(FLAGS[f"{name}_dir"].value)
    for name in ("work", "glue", "ner", "encoder")
  }
  return flag_values | {
    "text": ",".join(path for path in paths if path not in held_out),
    "held_out_text": ",".join(held_out),
    "torch": FLAGS.peer_python,
  }


def checkpoints(run: plan.Run) -> list[tuple[str, str]]:
  """Names of the pre-trainings and checkpoints that a run starts from."""
  return re.findall(r"{work}/(pretrain/[^ ,]*)/(model[^ ,]*)", run.command)


def remove_checkpoints(finished: set[str], runs: list[plan.Run]) -> None:
  """Removes checkpoints of finished pre-trainings that no run needs."""
  needed = {start for run in runs for start in checkpoints(run)}
  for file in Path(FLAGS.work_dir).glob("pretrain/*/*/model.ckpt-*"):
    start = file.parent.relative_to(FLAGS.work_dir).as_posix()
    if start in finished and (start, file.stem) not in needed:
      file.unlink()


def execute(run: plan.Run) -> dict:
  """Runs a program to the end; returns the result. Raises ChildProcessError."""
  folder = Path(FLAGS.work_dir, run.name)
  folder.parent.mkdir(parents=True, exist_ok=True)
  words = run.command.split()
  actual = [word.format_map(placeholders()) for word in words]
  begun = sum(os.times()[2:4])
  with open(f"{folder}.log", "a", encoding="utf-8") as file:
    failed = subprocess.call([sys.executable, *actual], cwd=ROOT, stderr=file)
  if failed:
    raise ChildProcessError(f"{run.name} failed: {folder}.log says why")
  line = {
    "name": run.name,
    "command": re.sub(r"{(\w+)}", r"$\1", " ".join(["python", *words])),
    "cpu_seconds": round(sum(os.times()[2:4]) - begun),
    **origin(),
    "results": scores(folder),
  }
  if not run.name.startswith("pretrain") and folder.is_dir():
    shutil.rmtree(folder)  # large, and no run starts from a fine-tuning
  return line


def write_files(work: Path) -> None:
  """Writes the files, if missing, that runs read and that no program makes."""
  texts = {
    f"{name}.json": json.dumps(config.to_dict())
    for name, config in plan.CONFIGS.items()
  }
  articles = []
  for path in files.expand(FLAGS.squad):
    articles += json.loads(Path(path).read_text("utf-8"))["data"]
  articles.sort(key=lambda article: article["title"])
  dev = articles[1::6]  # eight of 48
  train = [article for article in articles if article not in dev]
  for part in (part for article in train for part in article["paragraphs"]):
    for question in part["qas"]:
      del question["answers"][1:]  # as in SQuAD's training set
  for name, part in (("train", train), ("dev", dev)):
    texts[f"squad/{name}.json"] = json.dumps({"data": part})
    part = [{"paragraphs": sentences(a["paragraphs"])} for a in part]
    texts[f"sentences/{name}.json"] = json.dumps({"data": part})
  for number, article in enumerate(train):
    contexts = (part["context"] for part in article["paragraphs"])
    texts[f"text/{number:03}.txt"] = "\n\n".join(contexts) + "\n"
  for rows, task, name in itertools.product(
    plan.PLAN["rows"], plan.PLAN["rows_tasks"], ("train", "dev")
  ):
    path = Path(FLAGS.glue_dir, task, f"{name}.tsv")
    lines = path.read_text("utf-8").split("\n") if path.exists() else []
    lines = [*lines[: 1 + rows], ""] if name == "train" else lines
    texts[f"rows/{rows}/{task}/{name}.tsv"] = "\n".join(lines)
  for path, text in texts.items():
    if not (work / path).exists():
      (work / path).parent.mkdir(parents=True, exist_ok=True)
      (work / path).write_text(text, "utf-8")


def sentences(paragraphs: list[dict]) -> list[dict]:
  """Cuts paragraphs of SQuAD into sentences; drops answers that a cut divides.

  A question stays with the sentence of its first answer.
  """
  result = []
  for paragraph in paragraphs:
    context = paragraph["context"]
    ends = [match.end() for match in re.finditer(r"[.?!] |$", context)]
    for begin, end in itertools.pairwise([0, *ends]):
      own = []
      for question in paragraph["qas"]:
        answers = [
          answer | {"answer_start": answer["answer_start"] - begin}
          for answer in question["answers"]
          if begin <= answer["answer_start"] <= end - len(answer["text"])
        ]
        if begin <= question["answers"][0]["answer_start"] < end and answers:
          own.append(question | {"answers": answers})
      result.append({"context": context[begin:end], "qas": own})
  return result


def scores(folder: Path) -> dict[str, float]:
  """Results of a run; none without an evaluation."""
  for name in ("squad_scores.json", "*/result.json"):  # torch has result.json
    for path in folder.glob(name):
      values = json.loads(path.read_text("utf-8"))
      return values.get("scores", values)
  path = folder / "eval_results.txt"
  lines = path.read_text("utf-8").splitlines() if path.exists() else []
  return {name: float(value) for name, value in (x.split(" = ") for x in lines)}


if __name__ == "__main__":
  app.run(main)
