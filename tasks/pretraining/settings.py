"""Settings of run_pretraining.py, and their checks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from absl import logging

from cli.settings import common, flag, original
from data import features
from data.tokenization import open_tokenizer
from modeling.config import SIDES
from runs import checks, model_files, trained_model
from runs.settings import DRY_RUN_STEPS, Evaluation, Masks, Packing, Sampling
from storage import UserError, files, record_scan
from storage.record_scan import Head
from storage.tfrecord import Schema
from training import checkpoint_files

MASKED = ("mlm_nsp", "mlm")  # objectives of models that fill masks


@dataclass(frozen=True, kw_only=True)
class Settings(Packing, Evaluation, Masks, Sampling):
  """Flags of run_pretraining.py."""

  input_file: str | None = common(
    None, "TFRecord files or globs, comma-separated."
  )
  vocab_file: str | None = common(
    None,
    "Vocabulary, for unmasked records, --nospecial_tokens and --do_export.",
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
    "Stop at this step, before --num_train_steps. The command without this "
    "flag resumes, also on longer records.",
    minimum=0,
    training=False,
    dry_run=0,
  )
  max_eval_steps: int = original(
    100,
    "Evaluation steps; the records repeat if they are too few.",
    minimum=1,
    training=False,
    dry_run=DRY_RUN_STEPS,
  )
  sampling_weights: tuple[float, ...] | None = flag(
    None,
    "Weights of the patterns of --input_file in training, as in 3,1. Default: "
    "each record once per epoch.",
  )
  eval_file: str | None = flag(
    None,
    "Records to evaluate on. Unmasked records get masks by --masked_lm_prob "
    "and --do_whole_word_mask, with the default fractions of [MASK] and random "
    "tokens. Default: --input_file.",
    training=False,
  )
  objective: str = flag(
    "mlm_nsp",
    "mlm: No NSP; left_to_right: LTR & No NSP (section 5.1 of the paper), sets "
    "--attention=left_to_right; right_to_left: the mirror image.",
    choices=(*MASKED, *SIDES),
  )
  special_tokens: bool = flag(
    True,
    "Show [CLS], [SEP] and segments to left_to_right and right_to_left models. "
    "OpenAI GPT had none before fine-tuning. --nospecial_tokens needs "
    "--vocab_file.",
  )
  max_corrupt_records: int = flag(
    0,
    "Maximum of corrupt records to leave out. The run reads all records first.",
    minimum=0,
  )
  export_top_k: int = flag(
    5, "Tokens that an export lists for a mask.", minimum=1, training=False
  )

  def __post_init__(self):
    if self.objective in SIDES and self.attention is None:
      object.__setattr__(self, "attention", self.objective)

  @property
  def patterns(self) -> list[str]:
    names = (self.input_file or "").split(",")
    return [name for name in names if name.strip()]


def check_flags(settings: Settings) -> None:
  """Checks all flags and each file's first record; ValueError or OSError."""
  checks.check_training(settings)
  inputs: list[list[str]] = []
  if settings.do_train or settings.do_eval:
    trains = settings.do_train or not settings.eval_file
    if trains and not settings.input_file:
      raise UserError("--do_train and --do_eval need --input_file")
    patterns = (settings.input_file if trains else None, settings.eval_file)
    inputs = [files.expand(pattern) for pattern in patterns if pattern]
  num_steps, num_warmup = settings.num_train_steps, settings.num_warmup_steps
  if (stop := settings.stop_at_step) > num_steps:
    text = f"--stop_at_step={stop} is beyond --num_train_steps={num_steps}"
    raise UserError(text)
  settings.masks()
  weights = settings.sampling_weights
  if weights and len(weights) != (number := len(settings.patterns)):
    raise UserError(
      f"--sampling_weights={','.join(map(str, weights))}: give a number for "
      f"each of the {number} patterns of --input_file"
    )
  check_objective(settings)
  if settings.do_export:
    check_export(settings)
  network = model_files.config(settings)
  checks.check_run(settings, network, *["do_lower_case"] * settings.do_export)
  heads: list[Head] = []
  for paths in inputs:
    group = files.in_threads(record_scan.read_head, paths)
    find_schema(settings, group, network.vocab_size)
    heads += group
  check_vocabularies(settings, heads, network.vocab_size)
  if settings.do_train and num_warmup >= num_steps:
    logging.warning(
      "--num_warmup_steps=%d is not less than --num_train_steps=%d: the rate "
      "never reaches --learning_rate; use fewer warm-up steps",
      *(num_warmup, num_steps),
    )


def find_schema(
  settings: Settings, heads: Sequence[Head], vocab_size: int
) -> Schema:
  """Finds the schema of pre-training files from each file's head.

  Raises ValueError if a file has other records, lengths or ids than the
  settings allow, or if only some files are masked. A run that masks files needs
  a vocabulary.
  """
  # create_pretraining_data.py leaves files empty if there are few instances.
  records = {x.path: x.record for x in heads if x.record is not None}
  if not records:
    raise UserError(f"{heads[0].path} holds no record: leave it out")
  masked = [x for x in records if "masked_lm_positions" in records[x]]
  if not masked and settings.objective in MASKED and not settings.vocab_file:
    raise UserError(
      f"{next(iter(records))} was made with --masking=dynamic; --vocab_file is "
      "needed to mask it"
    )
  if not masked and settings.vocab_file:
    settings.tokenizer.check()
  length = settings.max_seq_length
  number = settings.max_predictions_per_seq if masked else 0
  schema = features.pretraining(length, number)
  limits = {
    "input_ids": vocab_size,
    "input_mask": 2,
    "masked_lm_positions": length,
    "masked_lm_ids": vocab_size,
    "next_sentence_labels": 2,
  }
  for path, record in records.items():
    record_scan.check_record(path, record, schema, limits)
  return schema


def check_vocabularies(
  settings: Settings, heads: Iterable[Head], vocab_size: int
) -> None:
  """Raises ValueError if records were not made with the model's vocabulary.

  The index of a record file has the fingerprint of the file's vocabulary. Files
  without a fingerprint pass. `checks.check_run` has checked --vocab_file.
  """
  path, owner, known = settings.vocab_file, settings.vocab_file, None
  if not path and (start := checks.checkpoint(settings)):
    entry = checkpoint_files.run_of(start)
    path = trained_model.find_vocabulary(start, entry, vocab_size)
    owner, known = path or start, entry.get("vocabulary")
  marks = {head.path: head.vocabulary for head in heads if head.vocabulary}
  tokenizer = open_tokenizer(path) if path else None
  for file, mark in marks.items():
    if not (tokenizer or known):
      owner, known = file, mark  # of the first file
    if not (tokenizer.fits(mark) if tokenizer else mark == known):
      raise UserError(
        f"{file} was made with another vocabulary than {owner}: make "
        "the records again with that vocabulary, or name an extended one by "
        "--vocab_file"
      )


def check_objective(settings: Settings) -> None:
  """Raises ValueError for flags that contradict --objective."""
  objective = settings.objective
  if objective not in SIDES:
    if not settings.special_tokens:
      raise UserError(
        f"--objective={objective} needs special tokens: --nospecial_tokens "
        f"goes with {' or '.join(SIDES)} only"
      )
  elif settings.attention != objective:
    raise UserError(
      f"--attention={settings.attention} contradicts --objective={objective}"
    )
  elif not (settings.special_tokens or settings.vocab_file):
    text = "--nospecial_tokens needs --vocab_file, which has these tokens"
    raise UserError(text)


def check_export(settings: Settings) -> None:
  """Raises ValueError if an export of the model could not fill masks."""
  if not settings.vocab_file:
    raise UserError("--do_export needs --vocab_file")
  settings.tokenizer.check()
  model_files.check_objective(settings.objective)
