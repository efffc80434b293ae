"""The tasks of benchmarks/fine_tune.py: files, commands, hyper-parameters."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from data.tasks import squad
from modeling import feature_based


@dataclass(frozen=True)
class Task:
  """What is trained and how: a row of the table.

  Attributes:
    name: what the row is called.
    peer: the task's name in benchmarks/fine_tune_torch.py; "": not there.
    train: its file, among the cut ones or in --datasets.
    dev: the same to evaluate on.
    program: ours, with the flags that only this task has; {train}, {dev} and
      {folder}, that of train, are filled in.
    metrics: as both sides name them.
    epochs: to train for.
    length: most tokens of a row.
    learning_rate: its peak.
    seeds: how often, with seeds from 1 on.
  """

  name: str
  peer: str
  train: str
  dev: str
  program: tuple[str, ...]
  metrics: tuple[str, ...]
  epochs: int
  length: int = 128
  learning_rate: float = 5e-5
  seeds: int = 3

  @property
  def is_squad(self) -> bool:
    """Whether scores are those of SQuAD's evaluators."""
    return self.peer.startswith("squad")


def _glue(name, peer, metrics, epochs, folder="glue_data"):
  program = ("run_classifier.py", f"--task_name={name}", "--data_dir={folder}")
  program += ("--do_train", "--do_eval")
  train, dev = (f"{folder}/{name}/{part}.tsv" for part in ("train", "dev"))
  return Task(name, peer, train, dev, program, metrics, epochs)


def _squad(name, peer, metrics, rate, *options):
  program = ("run_squad.py", "--train_file={train}", "--predict_file={dev}")
  program += ("--do_train", "--do_predict", *options)
  train, dev = (f"{peer}/{part}.json" for part in ("train", "dev"))
  return Task(name, peer, train, dev, program, metrics, 2, 256, rate, 2)


def _ner(name, peer, *options, **settings):
  train, dev = "wnut17/wnut17train.conll", "wnut17/emerging.dev.conll"
  program = ("run_ner.py", *FILES, *options)
  return Task(name, peer, train, dev, program, ("f1",), 2, **settings)


def _features(layers):
  # The paper's LSTM has 768 units: nine times the weights, beyond the caches.
  options = "--feature_based", f"--feature_layers={layers}", "--lstm_units=256"
  return _ner(f"features {layers}", "", *options, learning_rate=1e-3, seeds=1)


SQUAD_1 = "exact_match", "f1"
FILES = ("--train_file={train}", "--dev_file={dev}", "--do_train", "--do_eval")

TASKS = (
  _glue("MRPC", "mrpc", ("accuracy", "f1"), 3),
  _glue("STS-B", "stsb", ("pearson", "spearman"), 1),
  _glue("CoLA", "cola", ("matthews_correlation",), 2),
  _glue("SST-2", "sst2", ("accuracy",), 2, "cut"),
  _glue("RTE", "rte", ("accuracy",), 2),
  _ner("WNUT-17", "ner"),
  Task(
    "CODAH",
    "choice",
    "codah/swag_layout/train.csv",
    "codah/swag_layout/val.csv",
    ("run_swag.py", *FILES),
    ("accuracy",),
    1,
    96,
  ),
  _squad("SQuAD 1.1", "squad1", SQUAD_1, 5e-5),
  _squad("SQuAD 1.1 trimmed", "squad1", SQUAD_1, 5e-5, "--trim_padding"),
  _squad(
    "SQuAD 2.0",
    "squad2",
    ("exact", "f1"),
    1e-4,
    "--version_2_with_negative",
    "--trim_padding",
  ),
  *map(_features, feature_based.CHOICES),
)

SST_ROWS = 3000

# What the two cut SQuADs consist of: whole articles, by number. Version 2.0
# trains on 1,931 questions, of which 348 have no answer: from 2,362 with 1,096
# our side learned to answer none.
ARTICLES = {
  "squad1/train": {"train-v1.1.part.json": (0, 2, 3, 4, 6, 8)},
  "squad1/dev": {"dev-v1.1.open.json": (24, 33, 34)},
  "squad2/train": {"train-v2.0.part.json": (2, 3, 4, 5, 8, 9)},
  "squad2/dev": {"dev-v2.0.open.json": (7, 13)},
}


def cut_data(source: Path, target: Path) -> None:
  """Writes the data sets that are smaller here than in `source`."""
  sst = target / "cut/SST-2"
  sst.mkdir(parents=True, exist_ok=True)
  with open(source / "glue_data/SST-2/train.tsv", encoding="utf-8") as file:
    rows = [file.readline() for _ in range(1 + SST_ROWS)]
  (sst / "train.tsv").write_text("".join(rows), encoding="utf-8")
  shutil.copy(source / "glue_data/SST-2/dev.tsv", sst)
  for name, parts in ARTICLES.items():
    path = target / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    chosen = []
    for file, numbers in parts.items():
      articles = squad.articles(str(source / "squad" / file))
      chosen += [articles[number] for number in numbers]
    if name.endswith("/train"):
      _keep_one_answer(chosen)
    path.write_text(json.dumps({"version": "cut", "data": chosen}))


def _keep_one_answer(articles):
  """Drops all answers but the first, as training takes them."""
  for article in articles:
    for paragraph in article["paragraphs"]:
      for question in paragraph["qas"]:
        del question["answers"][1:]
