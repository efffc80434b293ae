"""Settings of run_classifier.py, and its tasks: GLUE, XNLI, users' tables."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

from absl import logging

from cli.settings import flag, required
from data import labels, tables
from runs import checks
from runs.settings import Packing, data_path
from runs.task_settings import EvaluatedFineTuning, LongText, Tables, workers
from storage import UserError, files, textfiles
from tasks.classification import examples
from tasks.classification.examples import ClassificationTask, Split, TextExample
from training import checkpoint_files

CUSTOM = "tsv"
EXTENSIONS = (".tsv", ".csv", ".jsonl", ".json", ".txt")
_ENDS = [a + b for a in EXTENSIONS for b in ("", *textfiles.COMPRESSED)]
_NLI_LABELS = ("contradiction", "entailment", "neutral")
_ENTAILMENT_LABELS = ("entailment", "not_entailment")
_COLA = ("source", "label", "star", "sentence")
_F1 = ("accuracy", "f1")
_CORRELATIONS = ("pearson", "spearman")
_MATTHEWS = ("matthews_correlation",)
_PAIR = ("sentence1", "sentence2")
_QUESTIONS = ("question1", "question2")


@dataclass(frozen=True, kw_only=True)
class OwnFiles(Tables):
  """Flags of columns and labels in the user's own files."""

  text_a_column: str = flag("text", "tsv: column of the text.")
  text_b_column: str | None = flag(None, "tsv: column of the second text.")
  label_column: str = flag("label", "tsv: column of the label.")
  is_regression: bool = flag(False, "tsv: labels are numbers.")
  multi_label: bool = flag(
    False,
    "tsv: a text has any number of labels, separated by | or a JSON list.",
  )


@dataclass(frozen=True, kw_only=True)
class Settings(OwnFiles, LongText, EvaluatedFineTuning, Packing):
  """Flags of run_classifier.py."""

  task_name: str = required(
    "A task of GLUE, GLUE for all in --data_dir, XNLI, or tsv: your own task."
  )
  data_dir: str | None = data_path("Folder with the data.")
  xnli_language: str = flag("zh", "Language of XNLI.")
  num_workers: int = workers()
  class_weights: tuple[str, ...] = flag(
    (), "Weights of the labels' losses: balanced, or as in rare=5,frequent=0.5."
  )
  prediction_columns: tuple[str, ...] = flag(
    (),
    "Columns to copy from the test file to test_predictions.tsv; or all.",
    training=False,
  )
  from_mnli: bool = flag(
    False, "GLUE: RTE, MRPC and STS-B begin with MNLI's model."
  )


def _task(
  name, text_a, text_b, label, labels=("0", "1"), header=None, **options
):
  """Makes a GLUE task. All files share text columns; test.tsv has no labels."""
  train = Split("train.tsv", text_a, text_b, label, header)
  test = Split("test.tsv", text_a, text_b, submission=f"{name}.tsv")
  splits = {"train": train, "dev": replace(train, file="dev.tsv"), "test": test}
  return ClassificationTask(name, splits, labels, **options)


def _mnli() -> ClassificationTask:
  train = Split("train.tsv", *_PAIR, "gold_label", guid="index")
  dev = replace(train, file="dev_matched.tsv", prefix="dev_matched")
  test = replace(
    train, file="test_matched.tsv", label=None, submission="MNLI-m.tsv"
  )
  splits = {
    "train": train,
    "dev": dev,
    "dev_mismatched": replace(train, file="dev_mismatched.tsv"),
    "test": test,
    "test_mismatched": replace(
      test, file="test_mismatched.tsv", submission="MNLI-mm.tsv"
    ),
    "test_ax": Split(
      "../diagnostic/diagnostic.tsv", *_PAIR, submission="AX.tsv"
    ),
  }
  return ClassificationTask("MNLI", splits, _NLI_LABELS)


def xnli(language: str = "zh") -> ClassificationTask:
  """Makes the XNLI task of a language. The original has only "zh", Chinese."""
  dev = Split("xnli.dev.tsv", *_PAIR, "gold_label", language=language)
  train = f"multinli/multinli.train.{language}.tsv"
  splits = {"train": Split(train, "premise", "hypo", "label"), "dev": dev}
  # The original does not read this file, which has real labels.
  splits["test"] = replace(dev, file="xnli.test.tsv")
  aliases = {"contradictory": "contradiction"}
  return ClassificationTask("XNLI", splits, _NLI_LABELS, label_aliases=aliases)


TASKS = {
  task.name: task
  for task in (
    _task("CoLA", "sentence", None, "label", header=_COLA, metrics=_MATTHEWS),
    _task("SST-2", "sentence", None, "label"),
    _task("MRPC", "#1 String", "#2 String", "Quality", metrics=_F1),
    _task(
      "STS-B", *_PAIR, "score", (), is_regression=True, metrics=_CORRELATIONS
    ),
    _task("QQP", *_QUESTIONS, "is_duplicate", metrics=_F1, skip_broken=True),
    _mnli(),
    _task("QNLI", "question", "sentence", "label", labels=_ENTAILMENT_LABELS),
    _task("RTE", *_PAIR, "label", labels=_ENTAILMENT_LABELS),
    _task("WNLI", *_PAIR, "label"),
    # A model of MNLI predicts GLUE's diagnostic data, which have no labels.
    ClassificationTask(
      "AX",
      {"test": Split("diagnostic.tsv", *_PAIR, submission="AX.tsv")},
      _NLI_LABELS,
      _MATTHEWS,
    ),
    xnli(),
  )
}


def find(name: str) -> ClassificationTask:
  """Finds a task by name; ignores case, "-" and "_"; ValueError if unknown."""
  plain = str.maketrans("", "", "-_")
  for known, task in TASKS.items():
    if known.lower().translate(plain) == name.lower().translate(plain):
      return task
  raise UserError(
    f"unknown task {name!r}; known are {', '.join(TASKS)}, GLUE for all of "
    "GLUE, and tsv for tables of your own: .tsv, .csv or .jsonl"
  )


def choose(settings: Settings) -> ClassificationTask:
  """Returns the task of --task_name; for tsv, `with_labels` adds the labels."""
  if settings.task_name.lower() == CUSTOM:
    return _custom_task(settings)
  task = find(settings.task_name)
  return xnli(settings.xnli_language) if task.name == "XNLI" else task


def check_text_pairs(column: str | None, start: str) -> None:
  """Raises ValueError if `column`, of second texts, does not fit the model."""
  trained = checkpoint_files.run_of(start)["flags"]
  is_custom = str(trained.get("task_name")).lower() == CUSTOM
  if is_custom and bool(trained.get("text_b_column")) != bool(column):
    raise UserError(
      f"--text_b_column={column}, but the model of {start} was trained with "
      f"--text_b_column={trained.get('text_b_column')}: give both or neither"
    )


def known_labels(start: str) -> labels.LabelSet:
  """Labels of a trained model, a checkpoint or its folder; empty if unknown."""
  if file := checkpoint_files.sibling_file(start, labels.FILE_NAME):
    return labels.read_file(file)
  name = checkpoint_files.run_of(start)["flags"].get("task_name") or CUSTOM
  own = () if name.lower() == CUSTOM else find(name).labels
  return labels.LabelSet(own, f"{name}, the task of {start}")


def check_teacher(teacher: str, task: ClassificationTask) -> None:
  """Raises ValueError if the model in `teacher` has different labels."""
  known = known_labels(teacher)
  if known and task.labels:  # a regression has no labels
    labels.check_teacher(teacher, known, task.labels)


def fits_thresholds(settings: Settings) -> bool:
  """True if an evaluation finds the thresholds of --multi_label."""
  # An ensemble has no thresholds until it is evaluated.
  path = settings.threshold_file(labels.THRESHOLDS)
  are_new = settings.ensemble > 1 and not files.exists(path)
  return settings.multi_label and (settings.do_train or are_new)


def _custom_task(settings: Settings):
  """Makes the task tsv, from the files train, dev and test in --data_dir."""
  folder = settings.data_dir or ""
  if settings.is_regression and settings.multi_label:
    raise UserError("give --is_regression or --multi_label, not both")
  columns = (settings.text_a_column, settings.text_b_column)
  splits = {} if folder else {"test": Split("", *columns)}
  for name in ("train", "dev", "test") if folder else ():
    paths = {name + end: os.path.join(folder, name + end) for end in _ENDS}
    present = [file for file, path in paths.items() if files.exists(path)]
    if len(present) > 1:
      raise UserError(
        f"{folder} has {' and '.join(present)}: remove all but one"
      )
    if present:
      label = None if name == "test" else settings.label_column
      splits[name] = Split(present[0], *columns, label)
  if not splits:
    raise FileNotFoundError(
      f"{folder} has no file train, dev or test with extension "
      f"{', '.join(EXTENSIONS)} (or these with .gz, .zst)"
    )
  return ClassificationTask(
    CUSTOM,
    splits,
    metrics=_CORRELATIONS if settings.is_regression else ("accuracy",),
    is_regression=settings.is_regression,
    multi_label=settings.multi_label,
    dialect=(settings.delimiter, settings.encoding),
  )


def with_labels(
  settings: Settings, checkpoint_labels: str | None
) -> ClassificationTask:
  """Returns the task of --task_name; for tsv, labels.choose finds the labels.

  Raises FileNotFoundError without labels.txt and training file, ValueError if
  the training file is not a table or has a single label.
  """
  task = choose(settings)
  if task.is_regression:
    return task
  if task.name != CUSTOM:
    start = checks.checkpoint(settings)
    if start and not (settings.do_train and settings.new_head):
      labels.warn_if_others(task.labels, known_labels(start))
    return task
  collect = None
  if "train" in task.splits:
    collect = partial(_training_labels, task, settings.data_dir)
  folder, trains = settings.output_dir, settings.do_train
  result = labels.choose(folder, checkpoint_labels, collect, trains)
  if len(result) < 2:
    raise UserError(
      f"{result.source}: the only label is {result[0][:60]!r}: is it the right "
      "--label_column?"
    )
  # F1 is for two classes; the second class is the positive class.
  metrics = _F1 if len(result) == 2 else task.metrics
  if task.multi_label:
    metrics = ("micro_f1", "macro_f1")
  return replace(task, labels=result, metrics=metrics)


def read(
  task: ClassificationTask,
  data_dir: str,
  kinds: Collection[str],
  copied_columns: Sequence[str] = (),
) -> dict[str, list[TextExample]]:
  """Returns {split: examples}; "dev" in `kinds` includes "dev_mismatched"."""
  result = {}
  for split, source in task.splits.items():
    kind = split.partition("_")[0]
    path = os.path.join(data_dir, source.file)
    if kind in kinds and split != kind and not files.exists(path):
      logging.info("%s does not exist and is left out", path)
    elif kind in kinds:
      copied = copied_columns if kind == "test" else ()
      result[split] = examples.read_examples(task, data_dir, split, copied)
  return result


def _training_labels(task, data_dir):
  split = task.splits["train"]
  path = os.path.join(data_dir, split.file)
  texts = []
  for row in tables.read_table(path, split.columns, dialect=task.dialect):
    cell = row.values[split.label].strip()
    where = f"{path}, line {row.line}, column {split.label}"
    if not cell and not task.multi_label:
      raise UserError(f"{where} is blank")
    texts.append(labels.split(cell, where) if task.multi_label else (cell,))
  result = set().union(*texts)
  if task.multi_label:
    if result <= {"0", "1"}:
      raise UserError(
        f"{path}: {split.label} has no label, or only 0 and 1; write the names "
        'of the labels that a text has, as a|b or ["a", "b"]'
      )
    if max(map(len, texts)) == 1:
      text = "%s: no text has several labels; %r separates labels"
      logging.warning(text, path, labels.SEPARATOR)
  if len(texts) >= 20 and 2 * len(result) > len(texts):
    text = "%s: %d labels in %d rows: is %s the right --label_column? For "
    text += "scores, give --is_regression"
    logging.warning(text, path, len(result), len(texts), split.label)
  remedy = "Correct the label, or give examples of it in both files"
  return labels.LabelSet(labels.in_order(result), path, remedy)
