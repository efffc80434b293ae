"""Data, evaluation and export of run_pretraining.py, by its flags."""

import os
from dataclasses import replace

from absl import logging

from cli import encoder
from cli.arguments import Arguments
from data.packing import Packing
from data.pretraining.dynamic_masking import CausalTargets
from data.pretraining.input_pipeline import PretrainingInput
from data.pretraining.instances import DEFAULT
from data.records import Source
from modeling import models
from modeling.config import SIDES, BertConfig
from serving.answers import TextConfig
from serving.export import ServedModel
from storage import UserError, files
from tasks.pretraining import settings
from tasks.pretraining.answers import Answers
from tasks.pretraining.serving import FillMask
from training import checkpoint, inference, report


def train_data(args: Arguments, config: BertConfig) -> PretrainingInput:
  """Records of --input_file, sampled by their weights; ValueError if unfit."""
  sources = None
  if args.sampling_weights or args.sampling_exponent != 1:
    sources = _weighted_sources(args)
  masking = settings.masking(args)
  packing = Packing(args.max_seq_length) if args.pack_examples else None
  records = _records(args, config, args.input_file, masking, sources, packing)
  is_other = masking.masked_lm_prob != DEFAULT.masked_lm_prob
  if (is_other or masking.whole_word) and not records.masks_words:
    logging.warning(
      "no word is masked when %s is read: --masked_lm_prob and "
      "--do_whole_word_mask are without effect on it",
      records.files[0],
    )
  return records


def eval_data(args: Arguments, config: BertConfig) -> PretrainingInput | None:
  """Records of --eval_file; None without the flag.

  Unmasked ones get masks by --masked_lm_prob, with the default parts of [MASK]
  and random tokens.
  """
  if not args.eval_file:
    return None
  masking = replace(settings.masking(args), policy=DEFAULT.policy)
  return _records(args, config, args.eval_file, masking)


def _records(args, config, patterns, masking, sources=None, packing=None):
  return PretrainingInput(
    files.expand(patterns),
    args.max_seq_length,
    config.vocab_size,
    masking,
    args.vocab_file,
    causal_targets=_causal_targets(args),
    max_corrupt_records=args.max_corrupt_records,
    folder=args.output_dir if args.max_corrupt_records else None,
    sources=sources,
    packing=packing,
    index_file=os.path.join(args.output_dir, "records-index.npz"),
  )


def _causal_targets(args):
  """Targets of --objective=left_to_right or right_to_left, else None."""
  if args.objective not in SIDES:
    return None
  if args.special_tokens:
    return CausalTargets(args.objective)
  if not args.vocab_file:
    raise UserError("--nospecial_tokens needs --vocab_file, to find them")
  return CausalTargets.without_special_tokens(args.objective, args.vocab_file)


def _weighted_sources(args):
  """Files of each pattern of --input_file, and their weight by the flags."""
  patterns = [name for name in args.input_file.split(",") if name.strip()]
  if args.sampling_weights:
    weights = _parse_weights(args, len(patterns))
    groups = map(files.expand, patterns)
  else:  # records are nearly of one size
    groups = [files.expand(pattern) for pattern in patterns]
    sizes = [sum(map(files.size, paths)) for paths in groups]
    if not all(sizes):
      empty = patterns[sizes.index(0)]
      raise UserError(f"{empty}: no bytes to weigh: make its records again")
    weights = [size**args.sampling_exponent for size in sizes]
    for pattern, weight in zip(patterns, weights, strict=True):
      percent = 100 * weight / sum(weights)
      logging.info("%s: %.1f %% of the records", pattern, percent)
  return list(map(Source, groups, weights))


def _parse_weights(args, number):
  try:
    weights = [float(weight) for weight in args.sampling_weights]
  except ValueError:
    weights = []
  if len(weights) != number or not all(weight > 0 for weight in weights):
    raise UserError(
      f"--sampling_weights={','.join(args.sampling_weights)} is not a positive "
      f"number for each of the {number} patterns of --input_file="
      f"{args.input_file}"
    )
  return weights


def evaluate(
  args: Arguments, model, objective, source: PretrainingInput, step: int
) -> None:
  """Writes eval_results.txt as the original does."""
  records = "--eval_file" if args.eval_file else "the records of --input_file"
  logging.info("evaluation at step %d, on %s", step, records)
  results = inference.evaluate(
    model,
    objective,
    source.endless_eval_batches(args.eval_batch_size),
    args.max_eval_steps,
  )
  report.write_evaluation(args.output_dir, results, step)


def has_next_sentence(path: str | None) -> bool:
  """True for a checkpoint, or a folder, with the head for next sentences."""
  name = "cls/seq_relationship/output_weights"
  return bool(path) and name in checkpoint.read(path).shapes


def served_model(args: Arguments) -> ServedModel:
  """Untrained model and its answers: masks to tokens, pairs to IsNext.

  It has the head for next sentences if its checkpoint has.
  """
  settings.check_export(args)
  next_sentence = has_next_sentence(encoder.checkpoint(args))
  config = TextConfig(args.vocab_file, args.do_lower_case, args.max_seq_length)
  return ServedModel(
    models.pretrainer(encoder.config(args), next_sentence),
    Answers(config, args.export_top_k),
    FillMask,
  )
