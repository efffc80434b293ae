"""Complete fine-tunings compared with transformers and torch.

  python -m benchmarks.fine_tune --task=MRPC --data_dir=glue_data/MRPC \
    --work_dir=work --bert_dir=bert --hf_dir=hugging_face_folder \
    --peer_python=torch/bin/python --rounds=7

Same weights (--bert_dir is what convert_checkpoint.py makes of --hf_dir), data
and hyper-parameters; each round has another seed. A run is timed from the start
of its process to its predictions. Seeds that --work_dir has are not run again.
"""

import json
import statistics
import sys
from pathlib import Path

import numpy as np

from benchmarks import contest
from benchmarks.contest import Contestant
from benchmarks.results import Table
from tasks import metrics
from tasks.classification import examples as classification_examples
from tasks.classification import named_tasks
from tasks.squad import examples as squad_examples
from tasks.squad import metrics as squad_metrics
from tasks.squad.decoding import Predictions

BASELINE, PEER = "bert-tf2", "transformers"
SQUAD = "SQuAD-1.1"
SHARED = ("max_seq_length", "learning_rate", "dtype", "group_by_length")


def command(args: contest.Args, seed: int, folder: Path) -> list[str]:
  """Program of this repository with the flags of a run."""
  data, bert = Path(args.data_dir), Path(args.bert_dir)
  flags = {name: getattr(args, name) for name in SHARED} | {
    "do_train": True,
    "vocab_file": bert / "vocab.txt",
    "bert_config_file": bert / "bert_config.json",
    "init_checkpoint": bert / "bert_model.ckpt",
    "train_batch_size": args.batch_size,
    "num_train_epochs": args.epochs,
    "seed": seed,
    "output_dir": folder / "output",
  }
  if args.task == SQUAD:
    program = "run_squad.py"
    flags |= {
      "train_file": data / "train.json",
      "predict_file": data / "dev.json",
      "do_predict": True,
      "dynamic_padding": True,
    }
  else:
    program = "run_classifier.py"
    flags |= {"task_name": args.task, "data_dir": data, "do_eval": True}
  words = [f"--{name}={value}" for name, value in flags.items()]
  return [sys.executable, str(contest.ROOT / program), *words]


def peer_command(args: contest.Args, seed: int, folder: Path) -> list[str]:
  """Program of the peer with the same settings."""
  config = {name: getattr(args, name) for name in SHARED} | {
    "model": args.hf_dir,
    "batch_size": args.batch_size,
    "epochs": args.epochs,
    "seed": seed,
  }
  if args.task == SQUAD:
    paths = (Path(args.data_dir, name) for name in ("train.json", "dev.json"))
    train, dev = map(squad_examples.articles, map(str, paths))
  else:
    train, dev = (
      [(row.text_a, row.text_b, row.label) for row in read(args, split)]
      for split in ("train", "dev")
    )
    config |= {"labels": named_tasks.find(args.task).labels}
  data = folder / "data.json"
  data.write_text(json.dumps({"train": train, "dev": dev}))
  config |= {"data": str(data)}
  module = "benchmarks.workers.fine_tune_torch"
  return [args.peer_python, "-m", module, json.dumps(config)]


def read(args: contest.Args, split: str) -> list:
  """Examples of a task of GLUE."""
  task = named_tasks.find(args.task)
  return classification_examples.read_examples(task, args.data_dir, split)


def execute(args: contest.Args, label: str, folder: Path, seed: int):
  """Runs a contestant once; returns times and scores in percent."""
  file = folder / "result.json"
  if file.exists():
    return json.loads(file.read_text())
  folder.mkdir(parents=True, exist_ok=True)
  is_peer = label == PEER
  make = peer_command if is_peer else command
  contestant = Contestant(
    "command",
    {"command": make(args, seed, folder), "log": str(folder / "log.txt")},
    preload=args.preload if is_peer else "",
  )
  answers = contest.interleave_fresh({label: contestant}, 1, input="{}\n")
  [answer] = answers[label]
  result = {name: answer[name] for name in ("seconds", "cpu_seconds")}
  if is_peer:
    predictions = json.loads(answer["output"])["predictions"]
    result["scores"] = score(args, predictions)
  elif args.task == SQUAD:
    predictions = (folder / "output/predictions.json").read_text()
    result["scores"] = score(args, json.loads(predictions))
  else:
    lines = (folder / "output/eval_results.txt").read_text().splitlines()
    values = dict(line.split(" = ") for line in lines)
    names = named_tasks.find(args.task).metrics
    result["scores"] = {n: 100 * float(values[f"eval_{n}"]) for n in names}
  file.write_text(json.dumps(result))
  return result


def score(args: contest.Args, predictions) -> dict[str, float]:
  """Scores of classes, of scores, or of answers by question id."""
  if args.task == SQUAD:
    articles = squad_examples.articles(f"{args.data_dir}/dev.json")
    return squad_metrics.score(articles, Predictions(predictions), False)
  task = named_tasks.find(args.task)
  to_number = task.labels.index if task.labels else float
  labels = np.array([to_number(row.label) for row in read(args, "dev")])
  return {
    name: 100 * float(metrics.METRICS[name](np.array(predictions), labels))
    for name in task.metrics
  }


def measure(args: contest.Args) -> contest.Results:
  """Times and scores of each contestant with each seed."""
  for name in ("data_dir", "work_dir", "bert_dir", "hf_dir"):
    setattr(args, name, str(Path(getattr(args, name)).absolute()))
  epochs = f"{args.epochs} epoch{'s' * (args.epochs > 1)}"
  case = f"{args.task}, {args.dtype}, {epochs}"
  case += ", by length" * args.group_by_length
  runs = {BASELINE: [], PEER: []}
  for seed in range(1, args.rounds + 1):
    for label, results in runs.items():
      folder = Path(args.work_dir, f"{case}, {label}, {seed}")
      results.append({"seed": seed} | execute(args, label, folder, seed))
  yield {"case": case, "runs": runs}


def rows(result: dict):
  """A row for each contestant."""
  runs = result["runs"]
  for label, values in runs.items():
    scores = []
    for name in values[0]["scores"]:
      numbers = [run["scores"][name] for run in values]
      cell = f"{name.replace('_', ' ')} {statistics.mean(numbers):.1f}"
      if len(numbers) > 1:
        cell += f" ± {statistics.stdev(numbers):.1f}"
      scores.append(cell)
    seconds = [run["seconds"] for run in values]
    yield (
      result["case"],
      label,
      ", ".join(scores),
      f"{statistics.median(seconds):.0f}",
      f"{statistics.median(run['cpu_seconds'] for run in values):.0f}",
      *contest.ratios(seconds, [run["seconds"] for run in runs[BASELINE]]),
    )


TABLE = Table(
  "fine_tune",
  ("case", "who", "scores", "s", "CPU s", "ratio", "range"),
  rows,
)


if __name__ == "__main__":
  contest.run(
    TABLE,
    measure,
    __doc__,
    rounds=3,
    task=(None, f"a task of GLUE, or {SQUAD}"),
    data_dir=(None, "folder of the task; of SQuAD with train.json, dev.json"),
    work_dir=(None, "folder for runs of the same settings"),
    bert_dir=(None, "encoder in the original's format"),
    hf_dir=(None, "the same encoder for transformers"),
    peer_python=(sys.executable, "Python that has torch"),
    preload=("", "library of an allocator for torch"),
    epochs=(1, "of training"),
    batch_size=(16, "examples of a step"),
    learning_rate=(5e-5, "its peak"),
    max_seq_length=(128, "tokens of a row"),
    dtype=("float32", "or bfloat16"),
    group_by_length=(False, "batches of examples of similar length"),
  )
