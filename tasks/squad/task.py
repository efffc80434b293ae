"""Flags of run_squad.py -> data, evaluation, predictions, export."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import keras
from absl import logging

from data import features, vocab_checks
from data.records import RecordDataset
from data.tokenization import FullTokenizer
from modeling import models
from modeling.config import BertConfig
from runs import checks, session
from serving.answers import TextConfig
from serving.export import ServedModel
from storage import files, tfrecord
from storage.progress import number_of
from tasks.squad import decoding, metrics, records
from tasks.squad import examples as squad_examples
from tasks.squad.answers import Answers
from tasks.squad.decoding import Predictions
from tasks.squad.examples import SquadExample
from tasks.squad.settings import Settings
from training import checkpoint_files, inference, report, run_folder


@dataclass(frozen=True)
class SquadRecords(RecordDataset):
  """Questions, and the records of their windows, the `rows`."""

  questions: Sequence[SquadExample]


def convert(
  args: Settings, flag: str, examples: Sequence[SquadExample]
) -> SquadRecords:
  """Converts the questions of a flag's files to train or eval.tf_record."""
  file = squad_examples.describe(files.expand(args[flag]))
  is_training = flag == "train_file"
  if is_training:
    examples = squad_examples.training_order(examples)
  tokenizer = FullTokenizer(args.vocab_file, args.do_lower_case)
  vocab_checks.warn_of_examples(
    lambda example: (example.question, " ".join(example.doc_tokens)),
    examples,
    tokenizer,
    file,
  )
  examples = examples[: args.max_examples]
  config = args.select(records.WindowConfig)
  windows = list(
    records.make_windows(examples, tokenizer, config, args.num_workers)
  )
  limit = config.max_query_length
  long = {w.example_index for w in windows if w.context_offset - 2 >= limit}
  number = number_of(len(examples), "question")
  text = "%s: %s; %d reach --max_query_length=%d, where they are cut off"
  logging.info(text, file, number, len(long), limit)
  schema = features.squad(config.max_seq_length, is_training)
  name = "train" if is_training else "eval"
  path = os.path.join(args.output_dir, f"{name}.tf_record")
  tfrecord.save(path, schema, records.rows(windows, schema))
  static = not args.dynamic_padding or session.needs_static_shapes(args)
  return SquadRecords(windows, path, schema, static, examples)


def answer(args: Settings, model, dataset: SquadRecords) -> Predictions:
  """Answers all questions, with the null threshold of an earlier prediction."""
  config = _decoding_config(args)  # before the work
  logits: list[decoding.Logits] = []
  if dataset.rows:
    outputs = inference.outputs(model, dataset, args.predict_batch_size)
    logits = [*zip(outputs["start_logits"], outputs["end_logits"], strict=True)]
  if args.dynamic_padding:  # values of padding may be undefined
    pairs = zip(dataset.rows, logits, strict=True)
    logits = [(s[: len(w.ids)], e[: len(w.ids)]) for w, (s, e) in pairs]
  return decoding.decode(
    dataset.questions,
    dataset.rows,
    logits,
    decoding.AnswerText(FullTokenizer(args.vocab_file, args.do_lower_case)),
    config,
  )


def evaluate(
  args: Settings, dataset: SquadRecords, predictions: Predictions, step: int
) -> dict[str, float]:
  """Writes scores and returns them; none if the right answers are unknown."""
  scores = metrics.score(
    dataset.questions, predictions, args.version_2_with_negative, args.f1_unit
  )
  metrics.write_scores(scores, args.output_dir)
  metrics.warn_of_silence(dataset.questions, predictions, scores)
  if scores:
    report.write_evaluation(args.output_dir, scores, step)
  return scores


def fit_threshold(
  args: Settings, scores: Mapping[str, float], predictions: Predictions
) -> None:
  """Writes the null threshold of the best F1, for the next prediction."""
  if "best_f1_thresh" in scores:
    path = metrics.threshold_file(args.output_dir, args.ensemble)
    metrics.save_threshold(path, scores, predictions.null_odds)


def evaluate_in_training(
  args: Settings, model, dataset: SquadRecords, step: int
) -> dict[str, float]:
  """Evaluates, and fits the threshold unless --keep_best has a better model."""
  predictions = answer(args, model, dataset)
  scores = evaluate(args, dataset, predictions, step)
  best = run_folder.read_best(args.output_dir)
  has_better = best and args.keeps_best
  if not has_better or scores.get("best_f1", 0.0) > best["value"]:
    fit_threshold(args, scores, predictions)
  return scores


def predict(args: Settings, model, dataset: SquadRecords, step: int) -> None:
  """Writes answers to all questions; scores and threshold if they are known."""
  predictions = answer(args, model, dataset)
  metrics.write_predictions(predictions, args.output_dir)
  fit_threshold(args, evaluate(args, dataset, predictions, step), predictions)


def _decoding_config(args: Settings) -> decoding.DecodingConfig:
  """Choice of answers, with the null threshold of an earlier prediction."""
  threshold = args.null_score_diff_threshold
  if args.version_2_with_negative and threshold is None:
    path = metrics.threshold_file(args.output_dir, args.ensemble)
    start = checks.checkpoint(args)
    if start and start == args.init_checkpoint:
      path = (
        checkpoint_files.sibling_file(start, os.path.basename(path)) or path
      )
    threshold = metrics.load_threshold(path)
  config = args.select(decoding.DecodingConfig)
  return replace(config, null_score_diff_threshold=threshold or 0.0)


def served_model(args: Settings) -> ServedModel:
  """Untrained model and its answers to questions about contexts."""
  return ServedModel(
    make_model(args, checks.config(args)),
    Answers(
      TextConfig(args.vocab_file, args.do_lower_case, args.max_seq_length),
      vars(args.select(records.WindowConfig)),
      vars(_decoding_config(args)),
      args.dynamic_padding,
    ),
  )


def make_model(args: Settings, config: BertConfig) -> keras.Model:
  """A SQuAD model, or an ensemble, whose outputs are [B, T, K]."""
  return models.ensemble(
    lambda: models.span_labeler(config), args.ensemble, models.stack
  )
