"""Model, data, evaluation and prediction of run_classifier.py, by its flags."""

import os
from dataclasses import dataclass
from functools import partial

import numpy as np
from absl import logging

from cli import dry_run, encoder_config, start_checkpoint, strategy
from cli.arguments import Arguments
from data import labels, record_writer, summaries, vocab_checks
from data.record_dataset import RecordDataset
from data.tokenization import FullTokenizer
from data.tokenization_ops import GraphTokenizer
from modeling import losses, models
from serving.export import ServedModel
from storage import files
from tasks.classification import examples, metrics, named_tasks
from tasks.classification.examples import ClassificationTask
from tasks.classification.serving import TextClassification
from training import inference, report


@dataclass(frozen=True)
class SplitRecords(RecordDataset):
  """Records of a split of a task; `split` is its name."""

  split: str


def classification_task(args: Arguments) -> ClassificationTask:
  """Returns the task of --task_name with its labels."""
  checkpoint_labels = start_checkpoint.labels_file(args)
  task = named_tasks.from_flags(args)
  if task.name != named_tasks.CUSTOM:
    if checkpoint_labels and task.labels:
      labels.warn_if_others(task.labels, checkpoint_labels)
    return task
  return named_tasks.with_labels(
    task, args.data_dir, args.output_dir, checkpoint_labels, args.do_train
  )


def objective(task: ClassificationTask) -> losses.Objective:
  """Cross entropy of classes, or squared error of scores."""
  return losses.regression() if task.is_regression else losses.classification()


def train_data(args: Arguments, task: ClassificationTask) -> SplitRecords:
  """Converts the training split to train.tf_record."""
  return _convert(args, task, "train", "train")


def eval_data(args: Arguments, task: ClassificationTask) -> list[SplitRecords]:
  """Converts the dev splits to eval.tf_record and eval_mismatched.tf_record."""
  return _convert_splits(args, task, "dev", "eval", args.eval_batch_size)


def predict_data(
  args: Arguments, task: ClassificationTask
) -> list[SplitRecords]:
  """Converts the test splits to predict.tf_record and so on."""
  return _convert_splits(args, task, "test", "predict", args.predict_batch_size)


def _convert_splits(args, task, kind, name, batch_size):
  """Converts all splits of a kind; only the first one has to exist."""
  converted = [_convert(args, task, kind, name, batch_size)]
  for split, source in task.splits.items():
    suffix = split.removeprefix(kind)
    if suffix == split or not suffix:
      continue
    path = os.path.join(args.data_dir, source.file)
    if files.exists(path):
      record_name = name + suffix
      converted.append(_convert(args, task, split, record_name, batch_size))
    else:
      logging.info("%s does not exist and is left out", path)
  return converted


def _convert(args, task, split, name, batch_size=1) -> SplitRecords:
  """Writes the records of a split to `name`.tf_record in --output_dir."""
  copied = args.prediction_columns if split.startswith("test") else ()
  split_examples = examples.read_examples(task, args.data_dir, split, copied)
  tokenizer = FullTokenizer(args.vocab_file, args.do_lower_case)
  file = task.splits[split].file
  _log_examples(task, split, split_examples, tokenizer)
  rows = split_examples = split_examples[: dry_run.limit(args)]
  static_shapes = strategy.needs_static_shapes(args)
  if static_shapes:
    rows = examples.pad_to_batch(rows, batch_size)
  length = args.max_seq_length
  schema = examples.record_schema(length, task.labels)
  path = os.path.join(args.output_dir, f"{name}.tf_record")
  build = partial(examples.TextRecordBuilder, tokenizer, length, task.labels)
  lengths = record_writer.write_records(
    path, schema, rows, build, args.num_workers
  )
  summaries.log_lengths(file, lengths, length)
  return SplitRecords(split_examples, path, schema, static_shapes, split)


def _log_examples(task, split, split_examples, tokenizer):
  """Logs the frequencies of labels; warns of scripts."""
  file = task.splits[split].file
  names = [example.label for example in split_examples]
  if task.labels and None not in names:
    expected = task.labels if split == "train" else ()
    summaries.log_labels(file, names, expected)
  vocab_checks.warn_of_examples(
    lambda example: (example.text_a, example.text_b),
    split_examples,
    tokenizer,
    file,
  )


def evaluate(
  args: Arguments,
  task: ClassificationTask,
  model,
  dev_sets: list[SplitRecords],
  step: int,
) -> dict[str, float]:
  """Writes eval_results.txt of each dev set; returns those of the first."""
  results = [_evaluate(args, task, model, part, step) for part in dev_sets]
  return results[0]


def _evaluate(args, task, model, part, step):
  logging.info("evaluation on %s at step %d", part.split, step)
  logits = inference.outputs(model, part, args.eval_batch_size)["logits"]
  label_ids = {"label_ids": metrics.label_ids(task, part.examples)}
  terms = objective(task).losses({"logits": logits}, label_ids)
  results = metrics.results(
    task,
    logits,
    np.asarray(terms["example_loss"]),
    part.examples,
    args.eval_batch_size,
  )
  if not task.is_regression:
    logging.info("\n%s", metrics.report(task, logits, part.examples))
  suffix = part.split.removeprefix("dev")
  report.write_evaluation(args.output_dir, results, step, suffix)
  return results


def predict(
  args: Arguments, task: ClassificationTask, model, part: SplitRecords
) -> None:
  """Writes the predictions of a test set; logs metrics if it has labels."""
  logits = inference.outputs(model, part, args.predict_batch_size)["logits"]
  paths = metrics.write_predictions(
    args.output_dir, task, part.split, logits, part.examples
  )
  if part.examples[0].label is not None:  # XNLI
    logging.info("%s", metrics.evaluate(task, logits, part.examples))
  logging.info("wrote %s", ", ".join(paths))


def served_model(args: Arguments) -> ServedModel:
  """Untrained model and its serving task: texts to a label or a score."""
  task = classification_task(args)
  return ServedModel(
    models.classifier(encoder_config.for_texts(args), task.num_outputs),
    TextClassification(
      GraphTokenizer(args.vocab_file, args.do_lower_case),
      args.max_seq_length,
      task.labels,
      task.has_pairs,
    ),
    task.labels,
  )
