"""The tasks of GLUE, and XNLI: each a table of files, columns and labels.

Files are as the scripts that download GLUE leave them; CoLA, MNLI, MRPC and
XNLI are read as the original reads them. Labels are in the order of the model's
logits, which for these four is the original's.
"""

from dataclasses import replace

from data.tasks.text_task import Split, Task

_NLI_LABELS = ("contradiction", "entailment", "neutral")
_ENTAILMENT_LABELS = ("entailment", "not_entailment")
_BINARY_LABELS = ("0", "1")
_COLA_HEADER = ("source", "label", "star", "sentence")


def _splits(submission, text_a, text_b, label) -> dict[str, Split]:
  """train.tsv, dev.tsv and test.tsv with the same columns, but no test label.

  Labels that a test file may have are dummies, and not looked at.
  """
  return {
    "train": Split("train.tsv", text_a, text_b, label),
    "dev": Split("dev.tsv", text_a, text_b, label),
    "test": Split("test.tsv", text_a, text_b, submission=submission),
  }


def _cola() -> Task:
  # Only the test file has a header.
  splits = {
    name: Split(f"{name}.tsv", "sentence", label="label", header=_COLA_HEADER)
    for name in ("train", "dev")
  }
  splits["test"] = Split("test.tsv", "sentence", submission="CoLA.tsv")
  return Task("CoLA", splits, _BINARY_LABELS, ("matthews_correlation",))


def _mnli() -> Task:
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
  return Task("MNLI", splits, _NLI_LABELS, ("accuracy",))


def xnli(language: str = "zh") -> Task:
  """XNLI in one of its languages.

  Args:
    language: trained and tested in; the original's is Chinese, "zh".
  """
  dev = Split(
    "xnli.dev.tsv",
    "sentence1",
    "sentence2",
    "gold_label",
    language=("language", language),
  )
  train = f"multinli/multinli.train.{language}.tsv"
  return Task(
    "XNLI",
    {
      "train": Split(train, "premise", "hypo", "label"),
      "dev": dev,
      # Not in the original. The labels are public, and no dummies.
      "test": replace(dev, file="xnli.test.tsv"),
    },
    _NLI_LABELS,
    ("accuracy",),
    spellings=(("contradictory", "contradiction"),),
  )


# What GLUE asks about MNLI's model; there are no labels.
_AX = Task(
  "AX",
  {
    "test": Split(
      "diagnostic.tsv", "sentence1", "sentence2", submission="AX.tsv"
    )
  },
  _NLI_LABELS,
  ("matthews_correlation",),
)

TASKS = {
  task.name: task
  for task in (
    _cola(),
    Task(
      "SST-2",
      _splits("SST-2.tsv", "sentence", None, "label"),
      _BINARY_LABELS,
      ("accuracy",),
    ),
    Task(
      "MRPC",
      _splits("MRPC.tsv", "#1 String", "#2 String", "Quality"),
      _BINARY_LABELS,
      ("accuracy", "f1"),
    ),
    Task(
      "STS-B",
      _splits("STS-B.tsv", "sentence1", "sentence2", "score"),
      None,
      ("pearson", "spearman"),
    ),
    Task(
      "QQP",
      _splits("QQP.tsv", "question1", "question2", "is_duplicate"),
      _BINARY_LABELS,
      ("accuracy", "f1"),
      skip_broken=True,
    ),
    _mnli(),
    Task(
      "QNLI",
      _splits("QNLI.tsv", "question", "sentence", "label"),
      _ENTAILMENT_LABELS,
      ("accuracy",),
    ),
    Task(
      "RTE",
      _splits("RTE.tsv", "sentence1", "sentence2", "label"),
      _ENTAILMENT_LABELS,
      ("accuracy",),
    ),
    Task(
      "WNLI",
      _splits("WNLI.tsv", "sentence1", "sentence2", "label"),
      _BINARY_LABELS,
      ("accuracy",),
    ),
    _AX,
    xnli(),
  )
}


def find(name: str) -> Task:
  """Finds a task by its name, in any case, with or without "-" and "_".

  Raises:
    ValueError: there is no such task; lists those there are.
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
