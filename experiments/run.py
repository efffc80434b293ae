r"""Runs the small experiments of plan.py, one after the other.

  python -m experiments.run --text='novels/*.txt' --glue_dir=$GLUE_DIR \
    --ner_dir=$BC5CDR_DIR --work_dir=/tmp/experiments

Every finished one is a line of results.jsonl in --work_dir; the same command
goes on after the last of them. After each, docs/results.md is written anew.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from absl import app, flags, logging

from experiments import plan, results
from modeling.config import BertConfig
from training import report, run_record

FLAGS = flags.FLAGS
ROOT = Path(__file__).parents[1]

flags.DEFINE_string("text", None, "Files of prose, a glob.", required=True)
flags.DEFINE_string("glue_dir", None, "SST-2 and QQP are in it.")
flags.DEFINE_string("ner_dir", None, "train.tsv, devel.tsv: words and tags.")
flags.DEFINE_string("work_dir", None, "Where all goes.", required=True)
flags.DEFINE_string("docs_dir", str(ROOT / "docs"), "Where tables go.")
flags.DEFINE_string("only", "", "Run those whose name this pattern is in.")
flags.DEFINE_integer("num_steps", plan.STEPS, "Of every pre-training.", 4)


def main(_):
  os.makedirs(FLAGS.work_dir, exist_ok=True)
  write_configs()
  path = os.path.join(FLAGS.work_dir, "results.jsonl")
  done = {line["name"] for line in results.read(path)}
  expected = [
    experiment
    for experiment in plan.experiments(FLAGS.num_steps)
    if re.search(FLAGS.only, experiment.name)
  ]
  todo = [*plan.preparations(*texts()), *expected]
  for number, experiment in enumerate(todo, 1):
    if experiment.name in done:
      continue
    logging.info("%d of %d: %s", number, len(todo), experiment.name)
    line = run(experiment)
    with open(path, "a", encoding="utf-8") as file:
      file.write(json.dumps(line) + "\n")
    results.write(results.read(path), FLAGS.docs_dir, FLAGS.num_steps)


def texts() -> tuple[str, str]:
  """Files to train on and, every 14th, to hold out; comma-separated."""
  paths = sorted(glob.glob(FLAGS.text))
  if len(paths) < 14:
    raise app.UsageError(f"--text={FLAGS.text} are {len(paths)} files, not 14")
  held_out = paths[13::14]
  train = [path for path in paths if path not in held_out]
  return ",".join(train), ",".join(held_out)


def write_configs() -> None:
  """A bert_config.json of each size."""
  for name, size in {"base": plan.SIZE, **plan.SIZES}.items():
    BertConfig(
      vocab_size=plan.VOCABULARY,
      num_attention_heads=size["hidden_size"] // 32,
      intermediate_size=4 * size["hidden_size"],
      max_position_embeddings=64,
      type_vocab_size=2,
      # So little training does not overfit.
      hidden_dropout_prob=0.0,
      attention_probs_dropout_prob=0.0,
      **size,
    ).to_json(os.path.join(FLAGS.work_dir, f"{name}.json"))


def run(experiment: plan.Experiment) -> dict:
  """Runs one to its end; returns its line.

  Raises:
    ChildProcessError: it failed.
  """
  folder = os.path.join(FLAGS.work_dir, experiment.name)
  given = dict(experiment.flags)
  if experiment.program.startswith("run_"):
    config = os.path.join(FLAGS.work_dir, f"{experiment.size}.json")
    given |= {"bert_config_file": config, "output_dir": folder}
  words = [f"--{name}={filled(value)}" for name, value in given.items()]
  command = [f"{experiment.program}.py", *words]
  begin = time.time()
  log = os.path.join(FLAGS.work_dir, f"{experiment.name}.log")
  os.makedirs(os.path.dirname(log), exist_ok=True)
  with open(log, "a", encoding="utf-8") as file:
    ended = subprocess.run(
      [sys.executable, *command], cwd=ROOT, stderr=file, check=False
    )
  if ended.returncode:
    raise ChildProcessError(f"{experiment.name} failed: {log} says why")
  line = {
    "name": experiment.name,
    "command": said(command),
    "seconds": round(time.time() - begin),
    "finished": time.strftime("%Y-%m-%d %H:%M"),
    "commit": run_record.commit(),
    "results": evaluation(folder),
    "curve": curve(folder),
  }
  if experiment.program in ("run_classifier", "run_ner"):
    shutil.rmtree(folder)  # nobody goes on from there
  return line


def said(command: list[str]) -> str:
  """A command as anybody can repeat it, with names for folders."""
  text = " ".join(["python", *command])
  folders = {
    "$WORK": FLAGS.work_dir,
    "$GLUE": FLAGS.glue_dir,
    "$NER": FLAGS.ner_dir,
    "$TEXT": os.path.dirname(FLAGS.text),
  }
  for name, folder in folders.items():
    for path in (folder and os.path.abspath(folder), folder):
      text = text.replace(path, name) if path else text
  return text


def filled(value):
  """A flag's value, with the folders that it names."""
  if not isinstance(value, str):
    return value
  folders = {"work": FLAGS.work_dir, "glue": FLAGS.glue_dir}
  folders["ner"] = FLAGS.ner_dir
  for name, folder in folders.items():
    if f"{{{name}}}" in value:
      if not folder:
        raise app.UsageError(f"this one needs --{name}_dir")
      value = value.replace(f"{{{name}}}", os.path.abspath(folder))
  return value


def evaluation(folder: str) -> dict[str, float]:
  """What eval_results.txt says; nothing if there is none."""
  path = os.path.join(folder, "eval_results.txt")
  if not os.path.exists(path):
    return {}
  with open(path, encoding="utf-8") as file:
    pairs = (line.split(" = ") for line in file)
    return {name: float(value) for name, value in pairs}


def curve(folder: str) -> list[list[float]]:
  """Pairs of step and masked-LM accuracy on the held-out text."""
  name = "masked_lm_accuracy"
  lines = report.read_metrics(folder) if os.path.isdir(folder) else []
  # Lines of training have a learning rate, those of an evaluation have none.
  result = {
    line["step"]: line[name]
    for line in lines
    if name in line and "learning_rate" not in line
  }
  return [list(pair) for pair in result.items()]


if __name__ == "__main__":
  app.run(main)
