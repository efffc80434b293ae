"""What run_pretraining.py reads and what is asked of it, from its flags."""

import os

from absl import flags

from assembly import record_settings
from data import files, shuffling
from data.pretraining.mix import USUAL
from data.pretraining.next_token import DIRECTIONS, NextToken
from data.pretraining.reading import Masking, PretrainingInput
from modeling.config import BertConfig

MASKED = ("mlm_nsp", "mlm")  # objectives


def define_flags() -> None:
  """Which records, and what to make of them."""
  flags.DEFINE_string(
    "input_file", None, "TFRecord files or globs, comma-separated."
  )
  flags.DEFINE_list(
    "input_weights",
    None,
    "Shares of the patterns of --input_file in training, as in 3,1. Default: "
    "all files alike, each record once an epoch.",
  )
  flags.DEFINE_string(
    "eval_file",
    None,
    "What to evaluate on; masked, where it is not yet, by the default shares. "
    "Default: --input_file.",
  )
  flags.DEFINE_integer("max_seq_length", 128, "Tokens of a record.", 1)
  flags.DEFINE_integer(
    "max_predictions_per_seq", 20, "Masked tokens of a record, at most.", 1
  )
  flags.DEFINE_enum(
    "objective",
    "mlm_nsp",
    [*MASKED, *DIRECTIONS],
    "mlm: No NSP; left_to_right: LTR & No NSP (section 5.1 of the paper), with "
    "--attention of that name; right_to_left is its mirror image.",
  )
  flags.DEFINE_bool(
    "special_tokens",
    True,
    "Whether such models see [CLS], [SEP] and segments. OpenAI GPT's did not, "
    "before fine-tuning. Without them --vocab_file is needed.",
  )
  flags.DEFINE_string(
    "vocab_file",
    None,
    "Vocabulary, for records made with --masking=dynamic and for --do_export.",
  )
  flags.DEFINE_integer(
    "skip_bad_records",
    0,
    "Leave out so many records that cannot be read. All are looked at first.",
    0,
  )
  record_settings.define_masking(" of such records")


def check_flags(FLAGS: flags.FlagValues) -> None:
  """Raises ValueError where flags contradict each other.

  Args:
    FLAGS: the values of `define_flags` and training.flags.define_model.
  """
  if FLAGS.objective in DIRECTIONS:
    if FLAGS.attention != FLAGS.objective:
      raise ValueError(
        f"--attention={FLAGS.attention} contradicts "
        f"--objective={FLAGS.objective}"
      )
  elif not FLAGS.special_tokens:
    raise ValueError(
      f"--objective={FLAGS.objective} needs special tokens: leave them out "
      f"with {' or '.join(DIRECTIONS)} only"
    )


def training(FLAGS: flags.FlagValues, config: BertConfig) -> PretrainingInput:
  """The records of --input_file, mixed by --input_weights.

  Args:
    FLAGS: as for `check_flags`, and `output_dir`.
    config: the network's.

  Raises:
    ValueError: they cannot be read as the flags say.
  """
  sources = None
  if FLAGS.input_weights:
    sources = _weighted(FLAGS.input_file, FLAGS.input_weights)
  return _read(
    FLAGS, config, FLAGS.input_file, record_settings.mix(FLAGS), sources
  )


def held_out(
  FLAGS: flags.FlagValues, config: BertConfig
) -> PretrainingInput | None:
  """The records of --eval_file, masked as usual; None if there is none."""
  if not FLAGS.eval_file:
    return None
  return _read(FLAGS, config, FLAGS.eval_file, USUAL)


def _read(FLAGS, config, patterns, mix, sources=None):
  return PretrainingInput(
    files.expand(patterns),
    FLAGS.max_seq_length,
    FLAGS.max_predictions_per_seq,
    config.vocab_size,
    masking=Masking(
      FLAGS.vocab_file, FLAGS.masked_lm_prob, FLAGS.do_whole_word_mask, mix
    ),
    next_token=_next_token(FLAGS),
    skip_bad_records=FLAGS.skip_bad_records,
    folder=FLAGS.output_dir if FLAGS.skip_bad_records else None,
    sources=sources,
    index_file=os.path.join(FLAGS.output_dir, "records-index.npz"),
  )


def _next_token(FLAGS):
  """What makes a language model's batches, if --objective is one's."""
  if FLAGS.objective not in DIRECTIONS:
    return None
  if FLAGS.special_tokens:
    return NextToken(FLAGS.objective)
  if not FLAGS.vocab_file:
    raise ValueError("--nospecial_tokens needs --vocab_file, to know them")
  return NextToken.of_plain_text(FLAGS.objective, FLAGS.vocab_file)


def _weighted(patterns, weights):
  """The files of each pattern, with its weight."""
  wanted = [pattern for pattern in patterns.split(",") if pattern.strip()]
  try:
    shares = [float(weight) for weight in weights]
  except ValueError:
    shares = []
  if len(shares) != len(wanted):
    raise ValueError(
      f"--input_weights={','.join(weights)} is no number for each of the "
      f"{len(wanted)} patterns of --input_file={patterns}"
    )
  return [
    shuffling.Source(files.expand(pattern), share)
    for pattern, share in zip(wanted, shares, strict=True)
  ]
