"""Settings of run_pretraining.py: records and objective.

Needs no TensorFlow.
"""

from absl import flags

from cli.arguments import Arguments
from data import vocab
from modeling.config import SIDES

MASKED = ("mlm_nsp", "mlm")  # objectives


def define_flags() -> None:
  """Defines the flags that select records and objective."""
  flags.DEFINE_string(
    "input_file", None, "TFRecord files or globs, comma-separated."
  )
  flags.DEFINE_list(
    "sampling_weights",
    None,
    "Weights of the patterns of --input_file in training, as in 3,1. Default: "
    "each record once per epoch.",
  )
  flags.DEFINE_string(
    "eval_file",
    None,
    "Records to evaluate on; unmasked ones are masked with the default "
    "probabilities. Default: --input_file.",
  )
  flags.DEFINE_integer("max_seq_length", 128, "Tokens of a record.", 1)
  flags.DEFINE_integer(
    "max_predictions_per_seq", 20, "Masked tokens of a record, at most.", 1
  )
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
    "vocab_file",
    None,
    "Vocabulary, for records made with --masking=dynamic and for --do_export.",
  )
  flags.DEFINE_integer(
    "max_corrupt_records",
    0,
    "Leave out at most so many corrupt records. Reads all records first.",
    0,
  )


def check_flags(args: Arguments) -> None:
  """Raises ValueError if --attention or --special_tokens do not fit."""
  if args.objective in SIDES:
    if args.attention != args.objective:
      raise ValueError(
        f"--attention={args.attention} contradicts --objective={args.objective}"
      )
  elif not args.special_tokens:
    raise ValueError(
      f"--objective={args.objective} needs special tokens: leave them out "
      f"with {' or '.join(SIDES)} only"
    )


def check_export(args: Arguments) -> None:
  """Raises ValueError if the model of run_pretraining cannot fill masks."""
  if not args.vocab_file:
    raise ValueError("--do_export needs --vocab_file")
  vocab.check_tokens(vocab.load(args.vocab_file), name=args.vocab_file)
  check_objective(args.objective)


def check_objective(objective: str | None) -> None:
  """Raises ValueError if models of an objective cannot fill masks."""
  if objective in SIDES:
    raise ValueError(
      f"a model of --objective={objective} cannot fill masks: take one "
      f"that was trained with {' or '.join(MASKED)}"
    )
