"""Flags of pre-training: vocabulary, records, masks, objective."""

import math
from collections.abc import Callable, Mapping

from absl import flags

from cli.arguments import Arguments
from data import vocab
from data.pretraining.instances import InstanceConfig, Masking, MaskPolicy
from modeling.config import PRESETS, SIDES
from storage import UserError

MASKED = ("mlm_nsp", "mlm")  # objectives of models that fill masks


def define_vocabulary_flags() -> None:
  """Defines the flags of build_vocab.py."""
  flags.DEFINE_string("output_file", None, "The vocabulary.", required=True)
  flags.DEFINE_integer("vocab_size", 30522, "Number of tokens.", 1, 1_000_000)
  flags.DEFINE_bool("do_lower_case", True, "Lower-case; not for cased models.")
  flags.DEFINE_list(
    "special_tokens", list(vocab.SPECIAL_TOKENS), "First tokens, [PAD] first."
  )
  flags.DEFINE_integer("unused_tokens", 0, "How many [unusedN] tokens.", 0)
  flags.DEFINE_integer("min_count", 2, "Minimum occurrences of a token.", 1)
  flags.DEFINE_integer(
    "max_alphabet",
    1000,
    "Characters at most; words with rarer ones become [UNK]. Chinese and "
    "Japanese need about 8000.",
    1,
  )
  flags.DEFINE_integer(
    "max_words", 5_000_000, "Distinct words in memory; rarer are dropped.", 1
  )
  define_sampling_exponent("words")
  flags.DEFINE_enum(
    "preset",
    None,
    [*PRESETS],
    "Also write bert_config.json beside --output_file: a model of this size, "
    "with initial values for short training (docs/pretraining.md).",
  )
  flags.DEFINE_string(
    "extend",
    None,
    "Vocabulary of a model that gets the text's words as tokens. The folder of "
    "--output_file, new or empty, also gets its configuration and checkpoint.",
  )
  flags.DEFINE_string("bert_config_file", None, "Of the model to extend.")
  flags.DEFINE_string("init_checkpoint", None, "Of the model to extend.")
  flags.DEFINE_integer(
    "new_words", 0, "Words for --extend; 0: as many as [unused] tokens.", 0
  )
  flags.DEFINE_bool(
    "append_words", False, "Append words beyond the [unused] tokens."
  )


def define_record_flags() -> None:
  """Defines the flags of create_pretraining_data.py."""
  flags.DEFINE_integer(
    "max_seq_length", 128, "Tokens of a record, three of them special.", 5
  )
  flags.DEFINE_integer("random_seed", 12345, "Seed of all random choices.")
  flags.DEFINE_integer(
    "dupe_factor",
    10,
    "How many times to go through the text, with other masks each time. With "
    "--masking=dynamic the default is 1.",
    1,
  )
  flags.DEFINE_float(
    "short_seq_prob", 0.1, "Fraction of documents cut to short records.", 0, 1
  )
  flags.DEFINE_enum(
    "masking",
    "static",
    ["static", "dynamic"],
    "static: mask now. dynamic: store pairs once, unmasked, for "
    "run_pretraining to mask anew in every epoch.",
  )
  define_masking_flags()
  flags.DEFINE_integer(
    "preview", 0, "Instances to print, and counts of all; writes nothing.", 0
  )
  flags.DEFINE_enum(
    "preview_objective",
    "mlm",
    ["mlm", *SIDES],
    "Targets to print, as of run_pretraining.py with this --objective.",
  )


def define_masking_flags(source: str = "") -> None:
  """Defines the flags of masking; `source` says of which tokens."""
  flags.DEFINE_integer(
    "max_predictions_per_seq", 20, "Masked tokens of a record, at most.", 1
  )
  flags.DEFINE_float(
    "masked_lm_prob", 0.15, f"Fraction of the tokens{source} to mask.", 0, 1
  )
  flags.DEFINE_float(
    "mask_token_prob",
    MaskPolicy.mask_token_prob,
    "Fraction of the tokens to mask that becomes [MASK].",
  )
  flags.DEFINE_float(
    "random_token_prob",
    MaskPolicy.random_token_prob,
    "Fraction of them that becomes a random token; others stay the same.",
  )
  flags.DEFINE_bool("do_whole_word_mask", False, "Mask all pieces of a word.")


def instance_config(args: Arguments) -> InstanceConfig:
  """Contents of the records; raises ValueError for flags that contradict."""
  words: Masking | None = masking(args)
  dupe_factor = args.dupe_factor
  if args.masking == "dynamic":
    if words != Masking(args.max_predictions_per_seq):
      raise UserError(
        "--masked_lm_prob, --mask_token_prob, --random_token_prob and "
        "--do_whole_word_mask are for words masked now: with --masking=dynamic "
        "give them to run_pretraining.py"
      )
    words = None
    if "dupe_factor" not in args.set_flags:
      dupe_factor = 1
  return InstanceConfig(
    args.max_seq_length, words, args.short_seq_prob, dupe_factor
  )


def preview_targets(
  args: Arguments, words: Mapping[str, int]
) -> tuple[Callable | None, bool]:
  """Makes the arguments `finish` and `is_causal` of builders.preview."""
  is_causal = args.preview_objective in SIDES
  if args.masking == "static" and not is_causal:
    return None, False
  if not is_causal:
    vocab.check_tokens(words, name=args.vocab_file)
  import tensorflow as tf  # noqa: PLC0415

  from data.pretraining import dynamic_masking  # noqa: PLC0415

  if is_causal:
    causal = dynamic_masking.CausalTargets(args.preview_objective)
  else:
    masker = dynamic_masking.Masker(words, masking(args))
  seeds = tf.random.Generator.from_seed(args.random_seed)

  def finish(columns):
    types = {"masked_lm_weights": tf.float32}
    batch = {
      name: tf.constant(values, types.get(name, tf.int64))
      for name, values in columns.items()
    }
    if is_causal:
      batch = causal(batch)
    else:
      batch = masker(batch, seeds.uniform([2], 0, 2**31 - 1, tf.int32))
    return {name: values.numpy() for name, values in batch.items()}

  return finish, is_causal


def masking(args: Arguments) -> Masking:
  """Choice and replacement of masked tokens."""
  return Masking(
    args.max_predictions_per_seq,
    args.masked_lm_prob,
    args.do_whole_word_mask,
    MaskPolicy(args.mask_token_prob, args.random_token_prob),
  )


def define_training_flags() -> None:
  """Defines the flags of run_pretraining.py."""
  flags.DEFINE_string(
    "input_file", None, "TFRecord files or globs, comma-separated."
  )
  flags.DEFINE_list(
    "sampling_weights",
    None,
    "Weights of the patterns of --input_file in training, as in 3,1. Default: "
    "each record once per epoch.",
  )
  define_sampling_exponent("bytes")
  flags.DEFINE_string(
    "eval_file",
    None,
    "Records to evaluate on; unmasked ones get masks by --masked_lm_prob, with "
    "the default parts of [MASK] and random tokens. Default: --input_file.",
  )
  flags.DEFINE_integer("max_seq_length", 128, "Tokens of a record.", 1)
  flags.DEFINE_enum(
    "objective",
    "mlm_nsp",
    [*MASKED, *SIDES],
    "mlm: No NSP; left_to_right: LTR & No NSP (section 5.1 of the paper), with "
    "--attention of that name; right_to_left is its mirror image.",
  )
  flags.DEFINE_bool(
    "special_tokens",
    True,
    "Show [CLS], [SEP] and segments to such models. OpenAI GPT did not see "
    "them before fine-tuning. --nospecial_tokens needs --vocab_file.",
  )
  flags.DEFINE_string(
    "vocab_file", None, "Vocabulary, for unmasked records and --do_export."
  )
  flags.DEFINE_integer(
    "max_corrupt_records",
    0,
    "Corrupt records to leave out, at most; reads all records first.",
    0,
  )


def define_sampling_exponent(unit: str) -> None:
  """Defines the flag that weighs sources by their number of a unit."""
  flags.DEFINE_float(
    "sampling_exponent",
    1.0,
    "Weigh the patterns of --input_file, such as one per language, by their "
    f"number of {unit} to this power; the original's multilingual models: 0.7.",
    0.0,
    1.0,
  )


def check_flags(args: Arguments) -> None:
  """Raises ValueError if flags of masks, objective or sampling do not fit."""
  masking(args)
  if args.sampling_exponent != 1 and args.sampling_weights:
    raise UserError(
      "--sampling_exponent computes what --sampling_weights says: drop one"
    )
  sampling_weights(args)
  if args.objective in SIDES:
    if args.attention != args.objective:
      raise UserError(
        f"--attention={args.attention} contradicts --objective={args.objective}"
      )
    if not (args.special_tokens or args.vocab_file):
      raise UserError("--nospecial_tokens needs --vocab_file, to find them")
  elif not args.special_tokens:
    raise UserError(
      f"--objective={args.objective} needs special tokens: "
      f"--nospecial_tokens goes with {' or '.join(SIDES)} only"
    )


def sampling_weights(args: Arguments) -> list[float] | None:
  """Weight of each pattern of --input_file, None without --sampling_weights.

  Raises ValueError for another number of them, or a weight that is none.
  """
  if not args.sampling_weights:
    return None
  try:
    weights = [float(weight) for weight in args.sampling_weights]
  except ValueError:
    weights = []
  number = len(source_patterns(args))
  if len(weights) != number or not all(0 < w < math.inf for w in weights):
    raise UserError(
      f"--sampling_weights={','.join(args.sampling_weights)}: give a positive, "
      f"finite number for each of the {number} patterns of --input_file"
    )
  return weights


def source_patterns(args: Arguments) -> list[str]:
  """The patterns of --input_file, between its commas."""
  return [name for name in (args.input_file or "").split(",") if name.strip()]


def check_export(args: Arguments) -> None:
  """Raises ValueError if the model of run_pretraining cannot fill masks."""
  if not args.vocab_file:
    raise UserError("--do_export needs --vocab_file")
  vocab.check_tokens(vocab.load(args.vocab_file), name=args.vocab_file)
  check_objective(args.objective)


def check_objective(objective: str | None) -> None:
  """Raises ValueError if models of an objective cannot fill masks."""
  if objective in SIDES:
    raise UserError(
      f"a model of --objective={objective} cannot fill masks: take one "
      f"that was trained with {' or '.join(MASKED)}"
    )
