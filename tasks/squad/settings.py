"""Settings of run_squad.py."""

from dataclasses import dataclass

from cli.settings import COMMON, DEVICES, ORIGINAL, flag
from runs.settings import FineTuning
from tasks.squad import metrics


@dataclass(frozen=True, kw_only=True)
class Settings(FineTuning):
  """Flags of run_squad.py."""

  train_file: str | None = flag(
    None, "SQuAD files or globs to train on.", group=COMMON
  )
  predict_file: str | None = flag(
    None, "SQuAD files or globs to answer.", group=COMMON, training=False
  )
  max_seq_length: int = flag(
    384, "Maximum tokens of a window.", minimum=1, group=COMMON
  )
  doc_stride: int = flag(
    128, "Tokens between window starts.", minimum=1, group=ORIGINAL
  )
  max_query_length: int = flag(
    64, "Maximum tokens of a question.", minimum=1, group=ORIGINAL
  )
  n_best_size: int = flag(
    20,
    "Entries of nbest_predictions.json.",
    minimum=1,
    group=ORIGINAL,
    training=False,
  )
  max_answer_length: int = flag(
    30,
    "Maximum tokens of an answer.",
    minimum=1,
    group=ORIGINAL,
    training=False,
  )
  export_top_k: int = flag(
    0, "Best answers that an export lists.", minimum=0, training=False
  )
  num_workers: int = flag(
    1,
    "Number of processes that tokenize.",
    minimum=1,
    group=DEVICES,
    training=False,
  )
  dynamic_padding: bool = flag(
    False,
    "Cut off padding that all rows of a batch have: several times as fast for "
    "short paragraphs. The softmax then excludes these positions, and numbers "
    "differ slightly from the original's.",
  )
  verbose_logging: bool = flag(
    False, "Accepted; has no effect.", group=ORIGINAL, training=False
  )
  version_2_with_negative: bool = flag(
    False, "SQuAD 2.0: questions may have no answer.", group=COMMON
  )
  f1_unit: str = flag(
    "word",
    "word: SQuAD. character: KorQuAD 1.0.",
    choices=metrics.F1_UNITS,
    training=False,
  )
  null_score_diff_threshold: float | None = flag(
    None,
    "Predict no answer if its score exceeds the best answer's by more than "
    "this. Default: the one beside --init_checkpoint, or the best of the last "
    "prediction in --output_dir, else 0.",
    group=ORIGINAL,
    training=False,
  )

  @property
  def reads_dev(self) -> bool:
    """True if a run answers questions, while training or afterwards."""
    return self.do_predict or self.evaluates_while_training
