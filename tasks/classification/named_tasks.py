"""Tasks by --task_name: those of GLUE, XNLI, and tsv, the user's own files."""

import os
from dataclasses import replace
from functools import partial

from cli import checks
from cli.arguments import Arguments
from data import labels, tables
from storage import files
from tasks.classification import examples
from tasks.classification.examples import ClassificationTask, Split

CUSTOM = "tsv"
EXTENSIONS = (".tsv", ".csv", ".jsonl")
_NLI_LABELS = ("contradiction", "entailment", "neutral")
_ENTAILMENT_LABELS = ("entailment", "not_entailment")
_BINARY_LABELS = ("0", "1")
_COLA_HEADER = ("source", "label", "star", "sentence")
_ACCURACY = ("accuracy",)
_F1 = ("accuracy", "f1")
_CORRELATIONS = ("pearson", "spearman")
_MULTI_LABEL = ("micro_f1", "macro_f1")
_MATTHEWS = ("matthews_correlation",)
_PAIR = ("sentence1", "sentence2")


def _task(name, text_a, text_b, label, labels=_BINARY_LABELS, **options):
  """Task of files with the same columns; a test file's labels are dummies."""
  splits = {
    "train": Split("train.tsv", text_a, text_b, label),
    "dev": Split("dev.tsv", text_a, text_b, label),
    "test": Split("test.tsv", text_a, text_b, submission=f"{name}.tsv"),
  }
  options = {"metrics": _ACCURACY} | options
  return ClassificationTask(name, splits, labels, **options)


def _cola() -> ClassificationTask:
  # Only the test file has a header.
  splits = {
    name: Split(f"{name}.tsv", "sentence", label="label", header=_COLA_HEADER)
    for name in ("train", "dev")
  }
  splits["test"] = Split("test.tsv", "sentence", submission="CoLA.tsv")
  return ClassificationTask("CoLA", splits, _BINARY_LABELS, _MATTHEWS)


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
  return ClassificationTask("MNLI", splits, _NLI_LABELS, _ACCURACY)


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
    _ACCURACY,
    label_aliases=(("contradictory", "contradiction"),),
  )


# GLUE's diagnostic data for a model of MNLI, without labels.
_AX = ClassificationTask(
  "AX",
  {"test": Split("diagnostic.tsv", *_PAIR, submission="AX.tsv")},
  _NLI_LABELS,
  _MATTHEWS,
)
TASKS = {
  task.name: task
  for task in (
    _cola(),
    _task("SST-2", "sentence", None, "label"),
    _task("MRPC", "#1 String", "#2 String", "Quality", metrics=_F1),
    _task("STS-B", *_PAIR, "score", labels=None, metrics=_CORRELATIONS),
    _task(
      "QQP",
      "question1",
      "question2",
      "is_duplicate",
      metrics=_F1,
      skip_broken=True,
    ),
    _mnli(),
    _task("QNLI", "question", "sentence", "label", labels=_ENTAILMENT_LABELS),
    _task("RTE", *_PAIR, "label", labels=_ENTAILMENT_LABELS),
    _task("WNLI", *_PAIR, "label"),
    _AX,
    xnli(),
  )
}


def find(name: str) -> ClassificationTask:
  """A task of GLUE or XNLI; case, "-" and "_" do not count. Else ValueError."""
  by_name = {_plain(known): task for known, task in TASKS.items()}
  if _plain(name) not in by_name:
    raise ValueError(
      f"unknown task {name!r}; known are {', '.join(TASKS)}, "
      "GLUE for all of GLUE, and tsv for files of your own"
    )
  return by_name[_plain(name)]


def _plain(name):
  return name.lower().replace("-", "").replace("_", "")


def from_flags(args: Arguments) -> ClassificationTask:
  """The task of --task_name; that of own files has no labels yet."""
  if args.task_name.lower() != CUSTOM:
    task = find(args.task_name)
    if args.multi_label:
      raise ValueError(
        f"--multi_label is for --task_name={CUSTOM}: every text of {task.name} "
        "has one label"
      )
    return xnli(args.xnli_language) if task.name == "XNLI" else task
  return custom_task(
    args.data_dir,
    args.text_a_column,
    args.text_b_column,
    args.label_column,
    args.is_regression,
    args.multi_label,
  )


def check_files(args: Arguments) -> None:
  """Raises an error if a file is missing that a --do_... flag needs."""
  reads = {
    "train": args.do_train,
    "dev": checks.needs_eval_data(args),
    "test": args.do_predict,
  }
  task = from_flags(args)
  examples.class_weights(args.class_weights, task)
  if args.long_text == "windows" and task.has_pairs:
    raise ValueError(
      f"--long_text=windows is for single texts, but {task.name} has pairs"
    )
  checks.windows(args)
  for split, is_read in reads.items():
    if is_read:
      examples.find_file(task, args.data_dir, split)


def custom_task(
  data_dir: str | None,
  text_a: str = "text",
  text_b: str | None = None,
  label: str = "label",
  is_regression: bool = False,
  multi_label: bool = False,
) -> ClassificationTask:
  """Task of those of the files train, dev and test that a folder has.

  `data_dir` is None if no file will be read. Columns are `text_a`, `text_b` and
  `label`, which the test file need not have. Labels come by `with_labels`.
  Raises FileNotFoundError without files, ValueError if a split has two.
  """
  if is_regression and multi_label:
    raise ValueError(
      "--is_regression and --multi_label contradict each other: a text has a "
      "score or labels"
    )
  splits = {} if data_dir else {"test": Split("", text_a, text_b)}
  for name in ("train", "dev", "test"):
    for file in _split_files(data_dir, name) if data_dir else ():
      label_column = None if name == "test" else label
      splits[name] = Split(file, text_a, text_b, label_column)
  if not splits:
    raise FileNotFoundError(
      f"{data_dir} has no file train, dev or test with the extension "
      f"{', '.join(EXTENSIONS)}"
    )
  if is_regression:
    return ClassificationTask(CUSTOM, splits, None, _CORRELATIONS)
  return ClassificationTask(
    CUSTOM, splits, (), _ACCURACY, multi_label=multi_label
  )


def _split_files(data_dir, name):
  result = [
    name + extension
    for extension in EXTENSIONS
    if files.exists(os.path.join(data_dir, name + extension))
  ]
  if len(result) > 1:
    raise ValueError(f"{data_dir} has {' and '.join(result)}; remove one")
  return result


def with_labels(
  task: ClassificationTask,
  data_dir: str | None,
  output_dir: str,
  checkpoint_labels: str | None = None,
  is_training: bool = True,
) -> ClassificationTask:
  """A `custom_task` with the labels that labels.choose returns.

  Raises FileNotFoundError if there is neither labels.txt nor a training file,
  ValueError if that is not a table or has a single label.
  """
  if task.is_regression:
    return task
  find = None
  if "train" in task.splits:
    find = partial(_training_labels, task, data_dir)
  result = labels.choose(output_dir, checkpoint_labels, find, is_training)
  # With two classes the second is the positive one.
  metrics = _F1 if len(result) == 2 else _ACCURACY
  metrics = _MULTI_LABEL if task.multi_label else metrics
  return replace(task, labels=result, metrics=metrics)


def save_labels(
  task: ClassificationTask, output_dir: str, teacher: str | None = None
) -> None:
  """Writes labels.txt of own files, once all of them could be read."""
  if task.name == CUSTOM and task.labels:
    labels.keep(task.labels, output_dir, teacher)


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
      raise ValueError(f"{where}: {split.label} is blank")
    else:
      result.add(label)
  if not result:
    raise ValueError(f"{path}: every {split.label} is empty: there is no label")
  if len(result) < 2 and not task.multi_label:
    raise ValueError(
      f"{path}: every {split.label} is {result.pop()!r}; there is nothing to "
      "learn"
    )
  return labels.LabelSet(labels.in_order(result), path)
