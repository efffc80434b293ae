"""Tasks by --task_name: those of GLUE, XNLI, and tsv, the user's own files."""

import os
from dataclasses import replace
from functools import partial

from absl import logging

from cli import arguments, checks, encoder
from cli.arguments import Arguments
from data import labels, tables
from storage import UserError, files
from tasks.classification import examples
from tasks.classification.examples import (
  ClassificationTask,
  Split,
  TextExample,
)
from training import run_record

CUSTOM = "tsv"
EXTENSIONS = (".tsv", ".csv", ".jsonl")
# Flags of its files, without effect on other tasks.
_CUSTOM_FLAGS = (
  *("multi_label", "is_regression"),
  *("text_a_column", "text_b_column", "label_column"),
)
_NLI_LABELS = ("contradiction", "entailment", "neutral")
_ENTAILMENT_LABELS = ("entailment", "not_entailment")
_BINARY_LABELS = ("0", "1")
_COLA_HEADER = ("source", "label", "star", "sentence")
_F1 = ("accuracy", "f1")
_CORRELATIONS = ("pearson", "spearman")
_MATTHEWS = ("matthews_correlation",)
_PAIR = ("sentence1", "sentence2")


def _task(
  name, text_a, text_b, label, labels=_BINARY_LABELS, header=None, **options
):
  """Task of files with the same columns; a test file's labels are dummies.

  `header` has the columns of a train or dev file without them.
  """
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
    "dev_mismatched": replace(
      dev, file="dev_mismatched.tsv", prefix="dev_mismatched"
    ),
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
  """XNLI in a language, by its code; the original's is Chinese, "zh"."""
  language_column = ("language", language)
  dev = Split("xnli.dev.tsv", *_PAIR, "gold_label", language=language_column)
  train = f"multinli/multinli.train.{language}.tsv"
  return ClassificationTask(
    "XNLI",
    {
      "train": Split(train, "premise", "hypo", "label"),
      "dev": dev,
      # Not in the original. These labels are real.
      "test": replace(dev, file="xnli.test.tsv"),
    },
    _NLI_LABELS,
    label_aliases=(("contradictory", "contradiction"),),
  )


TASKS = {
  task.name: task
  for task in (
    _task(
      *("CoLA", "sentence", None, "label"),
      header=_COLA_HEADER,
      metrics=_MATTHEWS,
    ),
    _task("SST-2", "sentence", None, "label"),
    _task("MRPC", "#1 String", "#2 String", "Quality", metrics=_F1),
    _task("STS-B", *_PAIR, "score", labels=None, metrics=_CORRELATIONS),
    _task(
      *("QQP", "question1", "question2", "is_duplicate"),
      metrics=_F1,
      skip_broken=True,
    ),
    _mnli(),
    _task("QNLI", "question", "sentence", "label", labels=_ENTAILMENT_LABELS),
    _task("RTE", *_PAIR, "label", labels=_ENTAILMENT_LABELS),
    _task("WNLI", *_PAIR, "label"),
    # GLUE's diagnostic data for a model of MNLI, without labels.
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
  """A task of GLUE or XNLI; case, "-" and "_" do not count. Else ValueError."""
  by_name = {_plain(known): task for known, task in TASKS.items()}
  if _plain(name) not in by_name:
    raise UserError(
      f"unknown task {name!r}; known are {', '.join(TASKS)}, "
      "GLUE for all of GLUE, and tsv for files of your own"
    )
  return by_name[_plain(name)]


def _plain(name):
  return name.lower().replace("-", "").replace("_", "")


def from_flags(args: Arguments) -> ClassificationTask:
  """The task of --task_name; see `with_labels` for those of own files."""
  if args.task_name.lower() == CUSTOM:
    return _custom_task(args)
  task = find(args.task_name)
  return xnli(args.xnli_language) if task.name == "XNLI" else task


def check_flags(args: Arguments) -> None:
  """Raises an error if flags contradict the task, or a file is missing."""
  task = from_flags(args)
  if task.name == CUSTOM:
    _check_text_pairs(args)
  else:
    _check_no_custom_flags(args, task)
  examples.class_weights(args.class_weights, task)
  if args.long_text == "windows" and task.has_pairs:
    raise UserError(
      f"--long_text=windows is for single texts, but {task.name} has pairs"
    )
  checks.windows(args)
  reads = args.do_train, checks.needs_eval_data(args), args.do_predict
  for split, is_read in zip(("train", "dev", "test"), reads, strict=True):
    if is_read:
      examples.find_file(task, args.data_dir, split)


def _check_text_pairs(args):
  """Raises ValueError if only one of run and training has --text_b_column."""
  start = encoder.checkpoint(args)
  if not start or (args.do_train and start == args.init_checkpoint):
    return
  trained = run_record.of_checkpoint(start)["flags"]
  column = trained.get("text_b_column")
  is_custom = str(trained.get("task_name")).lower() == CUSTOM
  if is_custom and bool(column) != bool(args.text_b_column):
    remedy = "name the column of the second text" if column else "leave it out"
    raise UserError(
      f"--text_b_column={args.text_b_column}, but the model of {start} was "
      f"trained with --text_b_column={column}: {remedy}"
    )


def _check_no_custom_flags(args, task):
  """Raises ValueError if a flag is set that the task does not read."""
  for name in _CUSTOM_FLAGS:
    if name in args.set_flags and args[name]:
      raise UserError(
        f"--{name} is for --task_name={CUSTOM}: the columns of {task.name} are "
        "fixed, and every text has one label or score"
      )


def _custom_task(args):
  """Task of the files train, dev and test in --data_dir, without its labels.

  Without --data_dir, for an export, no file is read. Raises FileNotFoundError
  without files, ValueError if a split has two.
  """
  if args.is_regression and args.multi_label:
    raise UserError(
      "--is_regression and --multi_label contradict each other: a text has a "
      "score or labels"
    )
  columns = args.text_a_column, args.text_b_column
  splits = {} if args.data_dir else {"test": Split("", *columns)}
  for name in ("train", "dev", "test") if args.data_dir else ():
    if file := _find_split(args.data_dir, name):
      label = None if name == "test" else args.label_column
      splits[name] = Split(file, *columns, label)
  if not splits:
    raise FileNotFoundError(
      f"{args.data_dir} has no file train, dev or test with the extension "
      f"{', '.join(EXTENSIONS)}"
    )
  if args.is_regression:
    return ClassificationTask(CUSTOM, splits, None, _CORRELATIONS)
  return ClassificationTask(CUSTOM, splits, (), multi_label=args.multi_label)


def _find_split(data_dir, name):
  """Name of the file of a split, or None."""
  names = [name + extension for extension in EXTENSIONS]
  present = [n for n in names if files.exists(os.path.join(data_dir, n))]
  if len(present) > 1:
    raise UserError(f"{data_dir} has {' and '.join(present)}; remove one")
  return present[0] if present else None


def with_labels(args: Arguments) -> ClassificationTask:
  """The task of --task_name; labels of own files are those of labels.choose.

  Raises FileNotFoundError if there is neither labels.txt nor a training file,
  ValueError if that is not a table, or for a single label.
  """
  task, checkpoint_labels = from_flags(args), encoder.labels_file(args)
  if task.is_regression:
    return task
  if task.name != CUSTOM:
    if checkpoint_labels:
      labels.warn_if_others(task.labels, checkpoint_labels)
    return task
  find = None
  if "train" in task.splits:
    find = partial(_training_labels, task, args.data_dir)
  result = labels.choose(
    args.output_dir, checkpoint_labels, find, args.do_train
  )
  if task.multi_label:
    return replace(task, labels=result, metrics=("micro_f1", "macro_f1"))
  if len(result) < 2:
    raise UserError(
      f"{result.source}: the only label is {result[0]!r}; there is nothing to "
      "learn"
    )
  # With two classes the second is the positive one.
  metrics = _F1 if len(result) == 2 else task.metrics
  return replace(task, labels=result, metrics=metrics)


def read(
  args: Arguments, task: ClassificationTask
) -> dict[str, list[TextExample]]:
  """Examples by split: of those that the run reads, and their _mismatched."""
  is_read = {
    "train": args.do_train,
    "dev": checks.needs_eval_data(args),
    "test": args.do_predict,
  }
  result = {}
  for split, source in task.splits.items():
    kind = split.partition("_")[0]
    if not is_read[kind]:
      continue
    path = os.path.join(args.data_dir, source.file)
    if split != kind and not files.exists(path):
      logging.info("%s does not exist and is left out", path)
      continue
    has_columns = split in ("test", "test_mismatched")  # GLUE's AX has not all
    copied = args.prediction_columns if has_columns else ()
    result[split] = examples.read_examples(task, args.data_dir, split, copied)
  return result


def check_teacher(args: Arguments, task: ClassificationTask) -> None:
  """Raises ValueError if the model of --teacher has other labels."""
  entry = run_record.read(args.teacher)[-1]
  known = with_labels(arguments.from_record(args.teacher, entry, {})).labels
  if None not in (known, task.labels):  # of scores there is no other order
    labels.check_teacher(args.teacher, known, task.labels)


def _training_labels(task, data_dir):
  split = task.splits["train"]
  path = os.path.join(data_dir, split.file)
  result = set()
  for row in tables.read_table(path, split.columns):
    label = row.values[split.label]
    where = f"{path}, line {row.line}"
    if task.multi_label:
      result.update(labels.split(label, f"{where}, column {split.label}"))
    elif not label.strip():
      raise UserError(f"{where}: {split.label} is blank")
    else:
      result.add(label)
  if not result:
    raise UserError(f"{path}: every {split.label} is empty: there is no label")
  return labels.LabelSet(labels.in_order(result), path)
