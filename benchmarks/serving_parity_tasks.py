"""The tasks of benchmarks/serving_parity.py: files, commands, predictions."""

import csv
import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from data.tasks import conll, squad, swag
from data.tokenization import CachedTokenizer, FullTokenizer

Texts = dict[str, list]

LENGTH = 128  # tokens of a row; the paragraphs that are asked about are longer


@dataclass(frozen=True)
class Source:
  """What the tasks' files are made of.

  Attributes:
    datasets: the folder of data sets.
    vocab_file: of the encoder.
    questions: how many to ask about a SQuAD's paragraphs; of the other tasks
      it is always a whole dev set.
    train_examples: how many to train on.
  """

  datasets: Path
  vocab_file: Path
  questions: int
  train_examples: int


@dataclass(frozen=True)
class Task:
  """A task whose exports are compared.

  Attributes:
    program: that trains, predicts and exports.
    flags: of its own, for all of its runs.
    prepare: writes its files into a folder; returns what to ask the SavedModel,
      by the names of its inputs.
    predictions: what the program said, by the names of the SavedModel's
      outputs, from the folder where it wrote it. Lists, of lists perhaps.
    settings: flags for the export and what it is compared with, from the same
      folder.
    is_trained: whether the program trains.
  """

  program: str
  flags: tuple[str, ...]
  prepare: Callable[[Path, Source], Texts]
  predictions: Callable[[Path], dict[str, list]]
  settings: Callable[[Path], tuple[str, ...]] = lambda folder: ()
  is_trained: bool = True


def _some_rows(path, number):
  """The first so many rows of a file, its first line included."""
  with open(path, encoding="utf-8") as file:
    return "".join(islice(file, 1 + number))


def _table(path):
  with open(path, encoding="utf-8", newline="") as file:
    return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def _texts(name, columns, folder, source):
  """A task of GLUE: all of its dev set, as if it were the test set."""
  given = source.datasets / "glue_data" / name
  rows = _some_rows(given / "train.tsv", source.train_examples)
  (folder / "train.tsv").write_text(rows, encoding="utf-8")
  (folder / "test.tsv").write_bytes((given / "dev.tsv").read_bytes())
  rows = _table(given / "dev.tsv")
  # As the program reads them: without blanks around.
  return {
    text: [row[column].strip() for row in rows]
    for text, column in columns.items()
  }


def _labels(folder):
  """What run_classifier.py said: labels, or scores."""
  rows = _table(folder / "output/test_predictions.tsv")
  values = np.loadtxt(folder / "output/test_results.tsv", ndmin=2)
  if values.shape[1] == 1:
    return {"score": values[:, 0].tolist()}
  labels = [row["prediction"] for row in rows]
  return {"label": labels, "probabilities": values.tolist()}


def _glue(name, **columns):
  flags = (f"--task_name={name}", "--data_dir=.", f"--max_seq_length={LENGTH}")
  prepare = partial(_texts, name, columns)
  return Task("run_classifier.py", flags, prepare, _labels)


def _endings(folder, source):
  """CODAH, in SWAG's columns: all of its dev set."""
  given = source.datasets / "codah/swag_layout"
  rows = _some_rows(given / "train.csv", source.train_examples)
  (folder / "train.csv").write_text(rows, encoding="utf-8")
  (folder / "test.csv").write_bytes((given / "val.csv").read_bytes())
  examples = swag.read(str(given / "val.csv"))
  return {
    "sent1": [example.sent1 for example in examples],
    "sent2": [example.sent2 for example in examples],
    "choices": [list(example.endings) for example in examples],
  }


def _chosen(folder):
  """What run_swag.py said."""
  rows = _table(folder / "output/test_predictions.tsv")
  values = np.loadtxt(folder / "output/test_results.tsv", ndmin=2)
  return {
    "choice": [int(row["prediction"]) for row in rows],
    "probabilities": values.tolist(),
  }


def _sentences(folder, source):
  """WNUT-17: all of its dev set."""
  given = source.datasets / "wnut17"
  rows = _some_rows(given / "wnut17train.conll", 20 * source.train_examples)
  (folder / "train.txt").write_text(rows, encoding="utf-8")
  dev = given / "emerging.dev.conll"
  (folder / "test.txt").write_bytes(dev.read_bytes())
  return {"tokens": [" ".join(s.words) for s in conll.read(str(dev))]}


def _tags(folder):
  """What run_ner.py said, word by word."""
  rows = _table(folder / "output/test_predictions.tsv")
  tags = list(rows[0])[3:]
  return {
    "tags": [row["prediction"] for row in rows],
    "probabilities": [[float(row[tag]) for tag in tags] for row in rows],
  }


def _lines(folder, source):
  """The sentences of SST-2's dev set, a line each."""
  rows = _table(source.datasets / "glue_data/SST-2/dev.tsv")
  texts = [row["sentence"].strip() for row in rows]
  (folder / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
  return {"text": texts}


def _vectors(folder):
  """What extract_features.py said."""
  with np.load(folder / "vectors.npz") as found:
    return {"sentence": found["vectors"].tolist()}


def _questions(version, folder, source):
  """Parts of the files of a version of SQuAD."""
  tokenizer = CachedTokenizer(FullTokenizer(str(source.vocab_file)))
  given = source.datasets / "squad"
  training = squad.articles(str(given / f"train-v{version}.part.json"))
  _write_squad(
    folder / "train.json",
    _some_questions(training, source.train_examples, lambda context: True),
  )
  dev = _some_questions(
    squad.articles(str(given / f"dev-v{version}.open.json")),
    source.questions,
    lambda context: len(tokenizer.ids(context)) > LENGTH,
  )
  _write_squad(folder / "dev.json", dev)
  pairs = [
    (question["question"], paragraph["context"])
    for paragraph in dev
    for question in paragraph["qas"]
  ]
  asked, contexts = zip(*pairs, strict=True)
  return {"question": list(asked), "context": list(contexts)}


def _some_questions(articles, number, is_wanted):
  """Paragraphs from all articles with so many questions; 2 of each."""
  paragraphs = [
    paragraph for one in articles for paragraph in one["paragraphs"]
  ]
  paragraphs = [one for one in paragraphs if is_wanted(one["context"])]
  # Evenly from all of them, as far as they go.
  step = max(2 * len(paragraphs) // number, 1)
  found, left = [], number
  for paragraph in paragraphs[::step]:
    some = paragraph["qas"][: min(2, left)]
    found.append({"context": paragraph["context"], "qas": some})
    left -= len(some)
  return [paragraph for paragraph in found if paragraph["qas"]]


def _write_squad(path, paragraphs):
  path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))


def _answers(folder):
  """What run_squad.py said."""

  def read(name):
    return json.loads((folder / "output" / f"{name}.json").read_text())

  texts, entries = read("predictions"), read("nbest_predictions")
  found = {
    "answer": list(texts.values()),
    "probability": [
      next(e["probability"] for e in entries[name] if e["text"] == text)
      for name, text in texts.items()
    ],
  }
  if (folder / "output" / "null_odds.json").exists():
    found["null_odds"] = list(read("null_odds").values())
  return found


def _half(folder):
  """Lets half of the questions have no answer."""
  odds = json.loads((folder / "output" / "null_odds.json").read_text())
  middle = statistics.median(odds.values())
  return (f"--null_score_diff_threshold={middle}",)


def _squad(version, *more):
  own = (
    "--train_file=train.json",
    "--predict_file=dev.json",
    f"--max_seq_length={LENGTH}",
    "--doc_stride=64",
  )
  prepare = partial(_questions, version)
  task = Task("run_squad.py", (*own, *more), prepare, _answers)
  if version == "1.1":
    return task
  negative = (*task.flags, "--version_2_with_negative")
  return Task(task.program, negative, prepare, _answers, _half)


TASKS = {
  "mrpc": _glue("MRPC", text_a="#1 String", text_b="#2 String"),
  "sst-2": _glue("SST-2", text="sentence"),
  "sts-b": _glue("STS-B", text_a="sentence1", text_b="sentence2"),
  "swag": Task(
    "run_swag.py",
    ("--train_file=train.csv", "--test_file=test.csv"),
    _endings,
    _chosen,
  ),
  "ner": Task(
    "run_ner.py",
    ("--train_file=train.txt", "--test_file=test.txt"),
    _sentences,
    _tags,
  ),
  "features": Task(
    "extract_features.py",
    (
      "--input_file=texts.txt",
      "--output_file=vectors.npz",
      "--format=npz",
      "--layers=-1",
      "--pooling=mean",
      f"--max_seq_length={LENGTH}",
    ),
    _lines,
    _vectors,
    is_trained=False,
  ),
  "squad-1.1": _squad("1.1"),
  "squad-1.1-trimmed": _squad("1.1", "--trim_padding"),
  "squad-2.0": _squad("2.0"),
  "squad-2.0-trimmed": _squad("2.0", "--trim_padding"),
}
