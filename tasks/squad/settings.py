"""Settings of run_squad.py."""

from dataclasses import dataclass

from cli.settings import common, flag, original
from runs.settings import data_path
from runs.task_settings import FineTuning, workers
from storage import UserError
from tasks.squad import metrics
from tasks.squad.answers import DecodingConfig
from tasks.squad.records import WindowConfig


@dataclass(frozen=True, kw_only=True)
class Settings(FineTuning):
  """Flags of run_squad.py."""

  train_file: str | None = data_path("SQuAD files or globs to train on.")
  predict_file: str | None = data_path("SQuAD files or globs to answer.")
  max_seq_length: int = common(384, "Maximum tokens of a window.", minimum=1)
  doc_stride: int = original(128, "Tokens between window starts.", minimum=1)
  max_query_length: int = original(
    64, "Maximum tokens of a question.", minimum=1
  )
  n_best_size: int = original(
    20, "Entries of nbest_predictions.json.", minimum=1, training=False
  )
  max_answer_length: int = original(
    30, "Maximum tokens of an answer.", minimum=1, training=False
  )
  export_top_k: int = flag(
    0,
    "Best answers that an export lists, at most --n_best_size.",
    minimum=0,
    training=False,
  )
  num_workers: int = workers()
  dynamic_padding: bool = flag(
    False,
    "Cut off padding that all rows of a batch have: several times as fast for "
    "short paragraphs. The softmax then excludes these positions, and numbers "
    "differ slightly from the original's.",
  )
  verbose_logging: bool = original(
    False, "Accepted; has no effect.", training=False
  )
  version_2_with_negative: bool = common(
    False, "SQuAD 2.0: questions may have no answer."
  )
  f1_unit: str = flag(
    "word",
    "word: SQuAD. character: KorQuAD 1.0.",
    choices=metrics.F1_UNITS,
    training=False,
  )
  null_score_diff_threshold: float | None = original(
    None,
    "Predict no answer if its score exceeds the best answer's by more than "
    "this. Default: what an evaluation or prediction has saved in the folder "
    "of the model's checkpoint, or else in --output_dir, else 0.",
    training=False,
  )

  @property
  def reads_dev(self) -> bool:
    """True if a run answers questions, in evaluations or predictions."""
    return self.do_predict or self.evaluates_while_training

  def windows(self) -> WindowConfig:
    """Makes the WindowConfig; ValueError for contradicting lengths."""
    length, of_query = self.max_seq_length, self.max_query_length
    if length <= of_query + 3:
      raise UserError(
        f"--max_seq_length={length} must be greater than --max_query_length="
        f"{of_query} + 3 ([CLS] and two [SEP]): raise the first or lower the "
        "second"
      )
    return WindowConfig(length, of_query, self.doc_stride)

  def decoding(self, threshold: float) -> DecodingConfig:
    limits = self.n_best_size, self.max_answer_length
    version_2, top_k = self.version_2_with_negative, self.export_top_k
    return DecodingConfig(*limits, version_2, threshold, top_k)
