"""Complete fine-tunings compared with transformers and torch.

  python -m benchmarks.fine_tune --task=MRPC --data_dir=glue_data/MRPC \
    --work_dir=work --bert_dir=bert --hf_dir=hugging_face_folder \
    --peer_python=torch/bin/python --rounds=7

Both sides have the same weights (--bert_dir is --hf_dir, converted), data,
optimizer and settings. Each round has the next seed. A run ends by predicting.
"""

import json
import shutil
import statistics
import sys
from pathlib import Path

import numpy as np

from benchmarks import contest
from benchmarks.results import Table
from tasks import metrics
from tasks.classification import examples as classification_examples
from tasks.classification import named_tasks
from tasks.ner import examples as ner_examples
from tasks.ner import metrics as ner_metrics
from tasks.ner import schemes as ner_schemes
from tasks.ner import tagging as ner_tagging
from tasks.squad import examples as squad_examples
from tasks.squad import metrics as squad_metrics
from tasks.squad.answers import Predictions

BASELINE, PEER = "bert-tf2", "transformers"
EVALUATION = {"do_eval": True, "eval_batch_size": 32}  # the peer's batch size
SHARED = ("max_seq_length", "learning_rate", "dtype", "group_by_length")


class Glue:
  """A task of GLUE, with GLUE's file names."""

  program = "run_classifier.py"

  def __init__(self, name: str, data: Path):
    self.task, self.data = named_tasks.find(name), data
    self.flags = {"task_name": name, "data_dir": data} | EVALUATION

  def peer_data(self) -> dict:
    def rows(split):
      return [(row.text_a, row.text_b, row.label) for row in self._read(split)]

    labels = self.task.labels or None
    return {"train": rows("train"), "dev": rows("dev"), "labels": labels}

  def _read(self, split):
    return classification_examples.read_examples(self.task, self.data, split)

  def own_scores(self, output: Path) -> dict[str, float]:
    return _eval_results(output, self.task.metrics)

  def score(self, predictions: list) -> dict[str, float]:
    to_number = self.task.labels.index if self.task.labels else float
    labels = np.array([to_number(row.label) for row in self._read("dev")])
    return {
      name: 100 * metrics.score(name, np.array(predictions), labels)
      for name in self.task.metrics
    }


class Squad:
  """SQuAD 1.1: train.json and dev.json."""

  program = "run_squad.py"

  def __init__(self, data: Path):
    self.files = {name: data / f"{name}.json" for name in ("train", "dev")}
    self.flags = {
      "train_file": self.files["train"],
      "predict_file": self.files["dev"],
      "do_predict": True,
      "predict_batch_size": 32,
      "dynamic_padding": True,
    }

  def peer_data(self) -> dict:
    return {k: squad_examples.articles(str(v)) for k, v in self.files.items()}

  def own_scores(self, output: Path) -> dict[str, float]:
    return self.score(json.loads((output / "predictions.json").read_text()))

  def score(self, predictions: dict) -> dict[str, float]:
    questions = squad_examples.read_examples([str(self.files["dev"])])
    return squad_metrics.score(questions, Predictions(predictions), False)


class Ner:
  """Named entities: the CoNLL files train.conll and dev.conll."""

  program = "run_ner.py"

  def __init__(self, data: Path):
    self.files = {name: data / f"{name}.conll" for name in ("train", "dev")}
    self.flags = {f"{name}_file": path for name, path in self.files.items()}
    self.flags |= EVALUATION

  def peer_data(self) -> dict:
    pairs = {n: [(s.words, s.tags) for s in self._read(n)] for n in self.files}
    return pairs | {"tags": ner_tagging.tag_set(self._read("train"))}

  def _read(self, name):
    return ner_examples.read_sentences(str(self.files[name]))

  def own_scores(self, output: Path) -> dict[str, float]:
    return _eval_results(output, ["f1"])

  def score(self, predictions: list[list[str]]) -> dict[str, float]:
    labels = [sentence.tags for sentence in self._read("dev")]
    scheme = ner_schemes.recognize({tag for tags in labels for tag in tags})
    scores = ner_metrics.evaluate(labels, predictions, scheme)
    return {"f1": 100 * scores.overall.f1}


def _eval_results(output, names):
  lines = (output / "eval_results.txt").read_text().splitlines()
  values = dict(line.split(" = ") for line in lines)
  return {name: 100 * float(values[f"eval_{name}"]) for name in names}


def command(args: contest.Args, task, seed: int, folder: Path) -> list[str]:
  bert = Path(args.bert_dir)
  flags = {name: vars(args)[name] for name in SHARED} | {
    "do_train": True,
    "vocab_file": bert / "vocab.txt",
    "bert_config_file": bert / "bert_config.json",
    "init_checkpoint": bert / "bert_model.ckpt",
    "train_batch_size": args.batch_size,
    "num_train_epochs": args.epochs,
    "seed": seed,
    "output_dir": folder / "output",
  }
  words = [f"--{name}={value}" for name, value in (flags | task.flags).items()]
  return [sys.executable, str(contest.ROOT / task.program), *words]


def peer_command(args: contest.Args, task, seed: int, folder: Path) -> list:
  config = {name: vars(args)[name] for name in SHARED} | {
    "model": args.hf_dir,
    "batch_size": args.batch_size,
    "epochs": args.epochs,
    "seed": seed,
    "data": str(folder / "data.json"),
  }
  Path(config["data"]).write_text(json.dumps(task.peer_data()))
  return contest.Contestant("fine_tune_torch", config, args.peer_python).command


def execute(args: contest.Args, task, label: str, folder: Path, seed: int):
  file = folder / "result.json"
  if file.exists():
    return json.loads(file.read_text())
  shutil.rmtree(folder, ignore_errors=True)  # a partial run would resume
  folder.mkdir(parents=True)
  is_peer = label == PEER
  words = (peer_command if is_peer else command)(args, task, seed, folder)
  config = {"command": words, "log": str(folder / "log.txt")}
  preload = args.preload if is_peer else ""
  runs = {label: contest.Contestant("command", config, preload=preload)}
  [answer] = contest.interleave_fresh(runs, 1, input="{}\n")[label]
  if is_peer:
    scores = task.score(json.loads(answer["output"])["predictions"])
  else:
    scores = task.own_scores(folder / "output")
  result = {name: answer[name] for name in ("seconds", "cpu_seconds")}
  result["scores"] = scores
  file.write_text(json.dumps(result))
  return result


def measure(args: contest.Args) -> contest.Results:
  for name in ("data_dir", "work_dir", "bert_dir", "hf_dir"):
    setattr(args, name, str(Path(vars(args)[name]).absolute()))
  kind = {"SQuAD-1.1": Squad, "NER": Ner}.get(args.task)
  data = Path(args.data_dir)
  task = kind(data) if kind else Glue(args.task, data)
  epochs = f"{args.epochs} epoch{'s' * (args.epochs > 1)}"
  case = f"{args.task}, {args.dtype}, {epochs}"
  if args.group_by_length:
    case += ", by length"
  runs = {label: [] for label in args.contestants}
  for seed in range(args.seed, args.seed + args.rounds):
    for label, results in runs.items():
      folder = Path(args.work_dir, f"{case}, {label}, {seed}")
      results.append({"seed": seed} | execute(args, task, label, folder, seed))
  yield {"case": case, "runs": runs}


def rows(result: dict):
  for label, values in (runs := result["runs"]).items():
    scores = []
    for name in values[0]["scores"]:
      numbers = [run["scores"][name] for run in values]
      cell = f"{name.replace('_', ' ')} {statistics.mean(numbers):.1f}"
      if len(numbers) > 1:
        cell += f" ± {statistics.stdev(numbers):.1f}"
      scores.append(cell)
    seconds = [run["seconds"] for run in values]
    base = [run["seconds"] for run in runs.get(BASELINE, values)]
    yield (
      result["case"],
      label,
      ", ".join(scores),
      f"{statistics.median(seconds):.0f}",
      f"{statistics.median(run['cpu_seconds'] for run in values):.0f}",
      *contest.ratios(seconds, base),
    )


HEADER = "case | who | scores | s | CPU s | ratio | range"
TABLE = Table("fine_tune", HEADER, rows)


if __name__ == "__main__":
  contest.run(
    TABLE,
    measure,
    rounds=3,
    seed=(1, "seed of the first round"),
    contestants=([BASELINE, PEER], "one, or both"),
    task=(None, "a task of GLUE, SQuAD-1.1, or NER"),
    data_dir=(None, "folder with train and dev: .tsv, .json (SQuAD), .conll"),
    work_dir=(None, "folder for runs of the same settings"),
    bert_dir=(None, "encoder in the original's format"),
    hf_dir=(None, "the same encoder for transformers"),
    peer_python=(sys.executable, "Python that has torch"),
    preload=("", "library of an allocator for torch"),
    epochs=(1, "epochs of training"),
    batch_size=(16, "examples of a step"),
    learning_rate=(5e-5, "peak of the learning rate"),
    max_seq_length=(128, "tokens of a row"),
    dtype=("float32", "or bfloat16"),
    group_by_length=(False, "batches of examples of similar length"),
  )
