"""Files, columns and labels of the tasks of GLUE and of XNLI.

Files have the layout of the scripts that download GLUE. CoLA, MNLI, MRPC and
XNLI are read as by the original and have the original's order of labels.
"""

from dataclasses import replace

from tasks.classification.examples import ClassificationTask, Split

_NLI_LABELS = ("contradiction", "entailment", "neutral")
_ENTAILMENT_LABELS = ("entailment", "not_entailment")
_BINARY_LABELS = ("0", "1")
_COLA_HEADER = ("source", "label", "star", "sentence")


def _task(
  name,
  text_a,
  text_b,
  label,
  labels=_BINARY_LABELS,
  metrics=("accuracy",),
  skip_broken=False,
):
  """Task whose files train.tsv, dev.tsv and test.tsv have the same columns.

  Labels of a test file are dummies and not read.
  """
  splits = {
    "train": Split("train.tsv", text_a, text_b, label),
    "dev": Split("dev.tsv", text_a, text_b, label),
    "test": Split("test.tsv", text_a, text_b, submission=f"{name}.tsv"),
  }
  return ClassificationTask(
    name, splits, labels, metrics, skip_broken=skip_broken
  )


def _cola() -> ClassificationTask:
  # Only the test file has a header.
  splits = {
    name: Split(f"{name}.tsv", "sentence", label="label", header=_COLA_HEADER)
    for name in ("train", "dev")
  }
  splits["test"] = Split("test.tsv", "sentence", submission="CoLA.tsv")
  return ClassificationTask(
    "CoLA", splits, _BINARY_LABELS, ("matthews_correlation",)
  )


def _mnli() -> ClassificationTask:
  train = Split(
    "train.tsv", "sentence1", "sentence2", "gold_label", guid="index"
  )
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
  }
  return ClassificationTask("MNLI", splits, _NLI_LABELS, ("accuracy",))


def xnli(language: str = "zh") -> ClassificationTask:
  """XNLI in a language, by its code; the original's is Chinese, "zh"."""
  dev = Split(
    "xnli.dev.tsv",
    "sentence1",
    "sentence2",
    "gold_label",
    language=("language", language),
  )
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
    ("accuracy",),
    label_aliases=(("contradictory", "contradiction"),),
  )


# GLUE's diagnostic data for a model of MNLI, without labels.
_AX = ClassificationTask(
  "AX",
  {
    "test": Split(
      "diagnostic.tsv", "sentence1", "sentence2", submission="AX.tsv"
    )
  },
  _NLI_LABELS,
  ("matthews_correlation",),
)
_F1 = ("accuracy", "f1")
_CORRELATIONS = ("pearson", "spearman")
_PAIR = ("sentence1", "sentence2")

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
  """Returns a task by its name in any case, with or without "-" and "_".

  Raises:
    ValueError: there is no such task; lists the names.
  """
  by_name = {_plain(known): task for known, task in TASKS.items()}
  if _plain(name) not in by_name:
    raise ValueError(
      f"unknown task {name!r}; known are {', '.join(TASKS)}, and tsv for files "
      "of your own"
    )
  return by_name[_plain(name)]


def _plain(name: str) -> str:
  return name.lower().replace("-", "").replace("_", "")
