"""Settings of run_classifier.py."""

from dataclasses import dataclass

from cli.settings import common, device, flag, flags_of
from runs.settings import Packing
from runs.task_settings import EvaluatedFineTuning, LongText, Tables


@dataclass(frozen=True, kw_only=True)
class OwnFiles(Tables):
  """Columns and labels of the user's own files."""

  text_a_column: str = flag("text", "tsv: column of the text.")
  text_b_column: str | None = flag(None, "tsv: column of the second text.")
  label_column: str = flag("label", "tsv: column of the label.")
  is_regression: bool = flag(False, "tsv: labels are numbers.")
  multi_label: bool = flag(
    False,
    "tsv: a text has any number of labels, separated by | or a JSON list.",
  )

  @property
  def own_flags(self) -> list[str]:
    """Names of the flags of own files that the user has set."""
    return [n for n in flags_of(OwnFiles) if n in self.given and self[n]]


@dataclass(frozen=True, kw_only=True)
class NamedTask(OwnFiles):
  """The task and its files."""

  task_name: str = common(
    None,
    "A task of GLUE, GLUE for all in --data_dir, XNLI, or tsv: your own task.",
    required=True,
  )
  data_dir: str | None = common(None, "Folder with the files of the task.")
  xnli_language: str = flag("zh", "Language of XNLI.")


@dataclass(frozen=True, kw_only=True)
class Settings(NamedTask, LongText, EvaluatedFineTuning, Packing):
  """Flags of run_classifier.py."""

  num_workers: int = device(
    1, "Number of processes that tokenize.", minimum=1, training=False
  )
  class_weights: tuple[str, ...] = flag(
    (), "Weights of the labels' losses: balanced, or as in rare=5,frequent=0.5."
  )
  prediction_columns: tuple[str, ...] = flag(
    (),
    "Columns to copy from the test file to test_predictions.tsv; all for all.",
    training=False,
  )
  from_mnli: bool = flag(
    False, "GLUE: RTE, MRPC and STS-B begin with MNLI's model."
  )
