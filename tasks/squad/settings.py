"""Flags of run_squad.py -> windows, decoding; needs no TensorFlow."""

from dataclasses import dataclass

from cli.arguments import Arguments


@dataclass(frozen=True)
class WindowConfig:
  """Lengths of windows, by the names of the original's flags.

  Attributes:
    max_seq_length: tokens of a record.
    max_query_length: tokens of a question; longer ones lose their end.
    doc_stride: tokens from one window to the next. If it exceeds what a window
      holds, windows adjoin and no token is left out.

  Raises:
    ValueError: a window could be without a token of the paragraph.
  """

  max_seq_length: int = 384
  max_query_length: int = 64
  doc_stride: int = 128

  def __post_init__(self):
    if self.max_seq_length <= self.max_query_length + 3:
      raise ValueError(
        f"max_seq_length {self.max_seq_length} must be greater than "
        f"max_query_length {self.max_query_length} + 3 ([CLS] and two [SEP]), "
        "or a window may hold nothing of the paragraph"
      )
    _check_positive(self, "max_query_length", "doc_stride")


@dataclass(frozen=True)
class DecodingConfig:
  """Choice of answers, by the names of the original's flags.

  Attributes:
    n_best_size: number of starts, ends and texts to choose from.
    max_answer_length: maximum tokens of an answer.
    version_2_with_negative: whether a question may have no answer.
    null_score_diff_threshold: no answer is predicted where its score exceeds
      that of the best text by more than this.

  Raises:
    ValueError: no text could be chosen.
  """

  n_best_size: int = 20
  max_answer_length: int = 30
  version_2_with_negative: bool = False
  null_score_diff_threshold: float = 0.0

  def __post_init__(self):
    _check_positive(self, "n_best_size", "max_answer_length")


def _check_positive(config, *names):
  for name in names:
    if getattr(config, name) < 1:
      raise ValueError(f"{name} {getattr(config, name)} must be at least 1")


def window_config(args: Arguments) -> WindowConfig:
  """Lengths that the flags give."""
  return WindowConfig(
    args.max_seq_length, args.max_query_length, args.doc_stride
  )


def export_top_k(args: Arguments) -> int:
  """Number of the n best answers among the outputs of an export.

  Raises:
    ValueError: it exceeds --n_best_size.
  """
  if args.export_top_k > args.n_best_size:
    raise ValueError(
      f"--export_top_k={args.export_top_k} exceeds "
      f"--n_best_size={args.n_best_size}: raise the latter, too"
    )
  return args.export_top_k
