"""Settings of build_vocab.py and create_pretraining_data.py."""

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass

from cli import file_checks
from cli.settings import Settings, common, device, flag, original
from data import vocab
from data.pretraining.instances import InstanceConfig, Masking, MaskPolicy
from modeling.config import PRESETS, SIDES
from runs import checks
from runs.settings import (
  TrainedModel,
  Vocabulary,
)
from storage import UserError, files
from training import checkpoint_files


@dataclass(frozen=True, kw_only=True)
class Corpus(Settings):
  """Text files, and the engine that reads them."""

  input_file: str = common(
    None, "Text files or globs, comma-separated.", required=True
  )
  input_format: str = common(
    "lines",
    "lines: one sentence per line, a blank line between documents. paragraphs: "
    "prose, a blank line between documents. documents: prose, one document per "
    "file, or per line with --text_field.",
    choices=("lines", "paragraphs", "documents"),
  )
  text_field: str | None = flag(
    None,
    "Field of JSON lines that has the text. Default: files are plain text.",
  )
  runner: str | None = device(
    None,
    "Runner of Apache Beam (requirements-beam.txt): DirectRunner, FlinkRunner, "
    "SparkRunner, DataflowRunner, ... Default: run without Beam.",
  )
  pipeline_options: str = device("", "Flags of --runner, as one text.")

  def runner_options(self) -> list[str]:
    """Words of --runner and --pipeline_options; ValueError if unquoted."""
    try:
      return [f"--runner={self.runner}", *shlex.split(self.pipeline_options)]
    except ValueError as error:
      raise UserError(f"--pipeline_options: {error}") from None


@dataclass(frozen=True, kw_only=True)
class Sampling(Settings):
  """How often each pattern of --input_file is read."""

  sampling_exponent: float = flag(
    1.0,
    "Weigh the patterns of --input_file, such as one per language, by their "
    "size to this power; the original's multilingual models: 0.7.",
    minimum=0.0,
    maximum=1.0,
  )


@dataclass(frozen=True, kw_only=True)
class Extension(Settings):
  """What --extend needs."""

  bert_config_file: str | None = common(None, "Of the model to extend.")
  init_checkpoint: str | None = common(None, "Of the model to extend.")
  new_words: int = flag(
    0, "Words for --extend; 0: as many as [unused] tokens.", minimum=0
  )
  append_words: bool = flag(False, "Append words beyond the [unused] tokens.")


@dataclass(frozen=True, kw_only=True)
class VocabularySettings(Corpus, Sampling, Extension):
  """Flags of build_vocab.py."""

  output_file: str = common(None, "The vocabulary.", required=True)
  vocab_size: int = common(
    30522, "Number of tokens.", minimum=1, maximum=1_000_000
  )
  do_lower_case: bool = common(True, "Lower-case; not for cased models.")
  special_tokens: tuple[str, ...] = flag(
    vocab.SPECIAL_TOKENS, "First tokens, [PAD] first."
  )
  unused_tokens: int = flag(0, "How many [unusedN] tokens.", minimum=0)
  min_count: int = flag(2, "Minimum occurrences of a token.", minimum=1)
  max_alphabet: int = flag(
    1000,
    "Characters at most; words with rarer ones become [UNK]. Chinese and "
    "Japanese need about 8000.",
    minimum=1,
  )
  max_words: int = flag(
    5_000_000, "Distinct words in memory; rarer are dropped.", minimum=1
  )
  preset: str | None = flag(
    None,
    "Also write bert_config.json beside --output_file: a model of this size, "
    "with initial values for short training (docs/pretraining.md).",
    choices=tuple(PRESETS),
  )
  extend: str | None = flag(
    None,
    "Vocabulary of a model that gets the text's words as tokens. The folder of "
    "--output_file, new or empty, also gets its configuration and checkpoint.",
  )
  overwrite: bool = common(False, "Replace --output_file if it exists.")


@dataclass(frozen=True, kw_only=True)
class Masks(Settings):
  """Choice and replacement of masked tokens."""

  max_predictions_per_seq: int = original(
    20, "Masked tokens of a record, at most.", minimum=1
  )
  masked_lm_prob: float = original(
    0.15,
    "Fraction of the tokens, of unmasked records, to mask.",
    minimum=0,
    maximum=1,
  )
  mask_token_prob: float = flag(
    MaskPolicy.mask_token_prob,
    "Fraction of the tokens to mask that becomes [MASK].",
  )
  random_token_prob: float = flag(
    MaskPolicy.random_token_prob,
    "Fraction of them that becomes a random token; others stay the same.",
  )
  do_whole_word_mask: bool = original(False, "Mask all pieces of a word.")

  def masks(self) -> Masking:
    return Masking(
      self.max_predictions_per_seq,
      self.masked_lm_prob,
      self.do_whole_word_mask,
      MaskPolicy(self.mask_token_prob, self.random_token_prob),
    )


@dataclass(frozen=True, kw_only=True)
class RecordSettings(Corpus, Vocabulary, Masks):
  """Flags of create_pretraining_data.py."""

  output_file: str | None = common(
    None, "TFRecord files, comma-separated; none for --preview."
  )
  overwrite: bool = common(False, "Replace existing output files.")
  max_seq_length: int = common(
    128, "Tokens of a record, three of them special.", minimum=5
  )
  random_seed: int = original(12345, "Seed of all random choices.")
  dupe_factor: int = original(
    10,
    "How many times to go through the text, with other masks each time. With "
    "--masking=dynamic the default is 1.",
    dependent=True,
    minimum=1,
  )
  short_seq_prob: float = original(
    0.1, "Fraction of documents cut to short records.", minimum=0, maximum=1
  )
  masking: str = flag(
    "static",
    "static: mask now. dynamic: store pairs once, unmasked, for "
    "run_pretraining to mask anew in every epoch.",
    choices=("static", "dynamic"),
  )
  preview: int = flag(
    0, "Instances to print, and counts of all; writes nothing.", minimum=0
  )
  preview_objective: str = flag(
    "mlm",
    "Targets to print, as of run_pretraining.py with this --objective.",
    choices=("mlm", *SIDES),
  )
  num_workers: int = device(
    0,
    "0: one process that holds the text in memory; records are the original's. "
    "1 or more: worker processes, for any amount of text; records differ from "
    "the original's and do not depend on the number of workers.",
    minimum=0,
  )
  deduplicate: bool = flag(False, "Drop copies of earlier documents.")


def instance_config(args: RecordSettings) -> InstanceConfig:
  """Contents of the records; raises ValueError for flags that contradict."""
  words: Masking | None = args.masks()
  dupe_factor = args.dupe_factor
  if args.masking == "dynamic":
    if words != Masking(args.max_predictions_per_seq):
      raise UserError(
        "--masked_lm_prob, --mask_token_prob, --random_token_prob and "
        "--do_whole_word_mask are for words masked now: with --masking=dynamic "
        "give them to run_pretraining.py"
      )
    words = None
    if "dupe_factor" not in args.given:
      dupe_factor = 1
  return InstanceConfig(
    args.max_seq_length, words, args.short_seq_prob, dupe_factor
  )


def preview_targets(
  args: RecordSettings,
) -> tuple[Callable | None, bool]:
  """Makes the arguments `finish` and `is_causal` of builders.preview."""
  is_causal = args.preview_objective in SIDES
  if args.masking == "static" and not is_causal:
    return None, False
  if not is_causal:
    args.tokenizer.check()
  import tensorflow as tf  # noqa: PLC0415

  from data.pretraining import dynamic_masking  # noqa: PLC0415

  if is_causal:
    causal = dynamic_masking.CausalTargets(args.preview_objective)
  else:
    masker = dynamic_masking.Masker(args.tokenizer, args.masks())
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


def check_extension(args: VocabularySettings) -> None:
  """Checks flags and files of --extend: OSError or ValueError."""
  names = "preset vocab_size max_alphabet special_tokens unused_tokens".split()
  for name in args.given.intersection(names):
    raise UserError(f"--{name} is not for --extend: leave it out")
  file_checks.check_files(args, "extend", "bert_config_file")
  if not args.init_checkpoint:
    raise UserError("--extend needs --init_checkpoint")
  folder, name = os.path.split(args.output_file)
  if name != "vocab.txt" or not folder:
    raise UserError(
      f"--output_file={args.output_file}: with --extend name FOLDER/vocab.txt, "
      "as a checkpoint is written beside it"
    )
  files.check_is_free(folder, "output_file")
  attention = checkpoint_files.flag_of(args.init_checkpoint, "attention")
  model = TrainedModel(
    bert_config_file=args.needed("bert_config_file"),
    vocab_file=args.needed("extend"),
    do_lower_case=args.do_lower_case,
    init_checkpoint=args.init_checkpoint,
    attention=attention,
  )
  checks.check(model, checks.config(model))
  model.tokenizer.check()
  unused = len(vocab.unused_ids(model.tokenizer.vocab))
  if not (unused or args.new_words):
    raise UserError(
      f"{args.extend} has no [unused] token to replace: give --append_words "
      "and --new_words, the number of tokens to append"
    )
  if args.new_words > unused and not args.append_words:
    raise UserError(
      f"{args.extend} has {unused} [unused] tokens, fewer than "
      f"--new_words={args.new_words}: --append_words appends the others"
    )
