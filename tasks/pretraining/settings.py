"""Settings of run_pretraining.py, and checks of masks and objective."""

import math
from dataclasses import dataclass

from cli.settings import common, flag, original
from modeling.config import SIDES
from runs import checks
from runs.settings import DRY_RUN_STEPS, Evaluation, Packing
from storage import UserError
from tasks.pretraining.corpus_settings import Masks, Sampling

MASKED = ("mlm_nsp", "mlm")  # objectives of models that fill masks


@dataclass(frozen=True, kw_only=True)
class Settings(Packing, Evaluation, Masks, Sampling):
  """Flags of run_pretraining.py."""

  input_file: str | None = common(
    None, "TFRecord files or globs, comma-separated."
  )
  vocab_file: str | None = common(
    None, "Vocabulary, for unmasked records and --do_export."
  )
  do_lower_case: bool = common(True, "False if --vocab_file is cased.")
  max_seq_length: int = common(128, "Tokens of a record.", minimum=1)
  num_train_steps: int = common(
    100000,
    "Number of training steps.",
    minimum=1,
    training=False,
    dry_run=DRY_RUN_STEPS,
  )
  num_warmup_steps: int = common(
    10000, "Number of warm-up steps.", minimum=0, dry_run=1
  )
  stop_at_step: int = flag(
    0,
    "Step to stop at before --num_train_steps; the same command without it "
    "resumes, also on longer records.",
    minimum=0,
    training=False,
    dry_run=0,
  )
  max_eval_steps: int = original(
    100,
    "Maximum evaluation steps.",
    minimum=1,
    training=False,
    dry_run=DRY_RUN_STEPS,
  )
  sampling_weights: tuple[str, ...] | None = flag(
    None,
    "Weights of the patterns of --input_file in training, as in 3,1. Default: "
    "each record once per epoch.",
  )
  eval_file: str | None = flag(
    None,
    "Records to evaluate on; unmasked ones get masks by --masked_lm_prob, with "
    "the default parts of [MASK] and random tokens. Default: --input_file.",
    training=False,
  )
  objective: str = flag(
    "mlm_nsp",
    "mlm: No NSP; left_to_right: LTR & No NSP (section 5.1 of the paper), with "
    "--attention of that name; right_to_left is its mirror image.",
    choices=(*MASKED, *SIDES),
  )
  special_tokens: bool = flag(
    True,
    "Show [CLS], [SEP] and segments to such models. OpenAI GPT did not see "
    "them before fine-tuning. --nospecial_tokens needs --vocab_file.",
  )
  max_corrupt_records: int = flag(
    0,
    "Corrupt records to leave out, at most; reads all records first.",
    minimum=0,
  )
  export_top_k: int = flag(
    5, "Tokens of a mask in an export.", minimum=1, training=False
  )


def check_flags(settings: Settings) -> None:
  """Raises ValueError for wrong flags of masks, objective or sampling."""
  settings.masks()
  if settings.sampling_exponent != 1 and settings.sampling_weights:
    raise UserError(
      "--sampling_exponent computes what --sampling_weights says: drop one"
    )
  sampling_weights(settings)
  if settings.objective in SIDES:
    if settings.attention != settings.objective:
      raise UserError(
        f"--attention={settings.attention} contradicts "
        f"--objective={settings.objective}"
      )
    if not (settings.special_tokens or settings.vocab_file):
      raise UserError("--nospecial_tokens needs --vocab_file, to find them")
  elif not settings.special_tokens:
    raise UserError(
      f"--objective={settings.objective} needs special tokens: "
      f"--nospecial_tokens goes with {' or '.join(SIDES)} only"
    )


def sampling_weights(settings: Settings) -> list[float] | None:
  """Weight of each pattern of --input_file, None without --sampling_weights.

  Raises ValueError for invalid weights, or a wrong number of weights.
  """
  if not settings.sampling_weights:
    return None
  try:
    weights = [float(weight) for weight in settings.sampling_weights]
  except ValueError:
    weights = []
  number = len(source_patterns(settings))
  if len(weights) != number or not all(0 < w < math.inf for w in weights):
    raise UserError(
      f"--sampling_weights={','.join(settings.sampling_weights)}: give a "
      f"positive, finite number for each of the {number} patterns of "
      "--input_file"
    )
  return weights


def source_patterns(settings: Settings) -> list[str]:
  """The comma-separated patterns of --input_file."""
  return [
    name for name in (settings.input_file or "").split(",") if name.strip()
  ]


def check_export(settings: Settings) -> None:
  """Raises ValueError if an export of the model could not fill masks."""
  if not settings.vocab_file:
    raise UserError("--do_export needs --vocab_file")
  settings.tokenizer.check()
  checks.check_objective(settings.objective)
