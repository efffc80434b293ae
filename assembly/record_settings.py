"""What records for pre-training are to be like, from flags.

Needs no TensorFlow.
"""

from absl import flags

from data.pretraining import instances
from data.pretraining.mix import USUAL, Mix


def define_flags() -> None:
  """All that says what a record holds."""
  flags.DEFINE_bool(
    "do_lower_case", True, "Lower-case the text; False for cased models."
  )
  flags.DEFINE_integer("max_seq_length", 128, "Tokens of a record.")
  flags.DEFINE_integer(
    "max_predictions_per_seq", 20, "Masked tokens of a record, at most."
  )
  flags.DEFINE_integer("random_seed", 12345, "Seed of all random choices.")
  flags.DEFINE_integer(
    "dupe_factor",
    10,
    "How many times to go through the text, with other masks each time. With "
    "--masking=dynamic the default is 1.",
  )
  flags.DEFINE_float(
    "short_seq_prob", 0.1, "Share of documents cut into shorter records."
  )
  flags.DEFINE_enum(
    "masking",
    "static",
    ["static", "dynamic"],
    "static: mask now. dynamic: store pairs once, unmasked, for "
    "run_pretraining to mask anew in every epoch.",
  )
  define_masking()


def define_masking(where: str = "") -> None:
  """What is masked, and by what.

  Args:
    where: which tokens they are, to be said in help texts.
  """
  flags.DEFINE_float(
    "masked_lm_prob", 0.15, f"Share of the tokens{where} to mask."
  )
  flags.DEFINE_float(
    "mask_share", Mix.mask_share, "Of those, the share that becomes [MASK]."
  )
  flags.DEFINE_float(
    "random_share",
    Mix.random_share,
    "The share that becomes a random token; the rest stays the same.",
  )
  flags.DEFINE_bool(
    "do_whole_word_mask", False, "Mask all pieces of a word, or none."
  )


def mix(FLAGS: flags.FlagValues) -> Mix:
  """By what masked tokens are replaced."""
  return Mix(FLAGS.mask_share, FLAGS.random_share)


def from_flags(FLAGS: flags.FlagValues) -> instances.Settings:
  """What the records are to be like.

  Args:
    FLAGS: the values of `define_flags`.

  Raises:
    ValueError: flags contradict each other.
  """
  masked = FLAGS.masking == "static"
  dupes = FLAGS.dupe_factor
  if not masked and not FLAGS["dupe_factor"].present:
    dupes = 1
  if not masked and mix(FLAGS) != USUAL:
    raise ValueError(
      "--mask_share and --random_share are for words masked now: with "
      "--masking=dynamic give them to run_pretraining.py"
    )
  return instances.Settings(
    max_seq_length=FLAGS.max_seq_length,
    max_predictions_per_seq=FLAGS.max_predictions_per_seq,
    masked_lm_prob=FLAGS.masked_lm_prob,
    short_seq_prob=FLAGS.short_seq_prob,
    dupe_factor=dupes,
    whole_word=FLAGS.do_whole_word_mask,
    mix=mix(FLAGS),
    masked=masked,
  )
