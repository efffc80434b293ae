"""Settings of create_pretraining_data.py.

Apart from settings.py, as fill_mask.py makes no records. Needs no TensorFlow.
"""

from absl import flags

from cli.arguments import Arguments
from data.pretraining import instances
from data.pretraining.static_masking import DEFAULT, MaskPolicy


def define_flags() -> None:
  """Defines the flags that determine the records."""
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
    "short_seq_prob", 0.1, "Fraction of documents cut into shorter records."
  )
  flags.DEFINE_enum(
    "masking",
    "static",
    ["static", "dynamic"],
    "static: mask now. dynamic: store pairs once, unmasked, for "
    "run_pretraining to mask anew in every epoch.",
  )
  define_masking_flags()


def define_masking_flags(source: str = "") -> None:
  """Defines the flags of masking.

  Args:
    source: end of "Fraction of the tokens" in the help text.
  """
  flags.DEFINE_float(
    "masked_lm_prob", 0.15, f"Fraction of the tokens{source} to mask."
  )
  flags.DEFINE_float(
    "mask_token_prob",
    MaskPolicy.mask_token_prob,
    "Fraction of those that becomes [MASK].",
  )
  flags.DEFINE_float(
    "random_token_prob",
    MaskPolicy.random_token_prob,
    "Fraction that becomes a random token; the rest stays the same.",
  )
  flags.DEFINE_bool(
    "do_whole_word_mask", False, "Mask all pieces of a word, or none."
  )


def mask_policy(args: Arguments) -> MaskPolicy:
  """Probabilities of [MASK] and of random tokens."""
  return MaskPolicy(args.mask_token_prob, args.random_token_prob)


def from_flags(args: Arguments) -> instances.InstanceConfig:
  """Configuration of the records.

  Raises:
    ValueError: flags contradict each other.
  """
  masked = args.masking == "static"
  dupe_factor = args.dupe_factor
  if not masked and "dupe_factor" not in args.set_flags:
    dupe_factor = 1
  if not masked and mask_policy(args) != DEFAULT:
    raise ValueError(
      "--mask_token_prob and --random_token_prob are for words masked now: "
      "with --masking=dynamic give them to run_pretraining.py"
    )
  return instances.InstanceConfig(
    max_seq_length=args.max_seq_length,
    max_predictions_per_seq=args.max_predictions_per_seq,
    masked_lm_prob=args.masked_lm_prob,
    short_seq_prob=args.short_seq_prob,
    dupe_factor=dupe_factor,
    whole_word=args.do_whole_word_mask,
    mask_policy=mask_policy(args),
    masked=masked,
  )
