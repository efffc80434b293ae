"""Flags of run_swag.py -> data, evaluation, predictions, export.

Legend: N examples, C choices.
"""

import os
from collections.abc import Sequence
from functools import partial

import numpy as np
from absl import logging

from cli import arguments, encoder, strategy
from cli.arguments import Arguments
from data import features, summaries, vocab_checks
from data.records import RecordDataset
from data.tokenization import FullTokenizer
from data.tokenization_ops import GraphTokenizer
from modeling import losses, models
from serving import compiled_model
from serving.export import ServedModel
from storage import tfrecord
from tasks import metrics
from tasks.multiple_choice import examples
from tasks.multiple_choice.examples import ChoiceExample, ChoiceRecordBuilder
from tasks.multiple_choice.serving import MultipleChoice
from training import report


def train_data(args: Arguments) -> RecordDataset:
  """Converts --train_file to train.tf_record."""
  return _convert(args, "train_file", "train")


def eval_data(args: Arguments) -> RecordDataset:
  """Converts --dev_file to eval.tf_record."""
  return _convert(args, "dev_file", "eval")


def predict_data(args: Arguments) -> RecordDataset:
  """Converts --test_file, with or without labels, to predict.tf_record."""
  return _convert(args, "test_file", "predict", needs_labels=False)


def _convert(args, flag, name, needs_labels=True):
  """Writes the records of a flag's file to `name`.tf_record in --output_dir."""
  file = args[flag]
  rows = examples.read_examples(file)[: arguments.max_examples(args)]
  if needs_labels and rows[0].label is None:
    raise ValueError(f"--{flag}: {file} has no column label")
  tokenizer = FullTokenizer(args.vocab_file, args.do_lower_case)
  vocab_checks.warn_of_examples(
    lambda row: (row.sent1, row.sent2, *row.endings), rows, tokenizer, file
  )
  choices = len(rows[0].endings)
  build = partial(ChoiceRecordBuilder, tokenizer, args.max_seq_length, choices)
  schema = features.multiple_choice(args.max_seq_length, choices)
  path = os.path.join(args.output_dir, f"{name}.tf_record")
  lengths = tfrecord.write_records(path, schema, rows, build, args.num_workers)
  summaries.log_lengths(file, lengths, args.max_seq_length)
  return RecordDataset(rows, path, schema, strategy.needs_static_shapes(args))


def evaluate(
  args: Arguments, model, part: RecordDataset, step: int
) -> dict[str, float]:
  """Writes eval_results.txt and returns its values."""
  logging.info("evaluation at step %d", step)
  logits = compiled_model.outputs(model, part, args.eval_batch_size)["logits"]
  labels = np.array([example.label for example in part.examples])
  predictions = np.argmax(logits, -1)
  objective = losses.classification()
  terms = objective.losses({"logits": logits}, {"label_ids": labels})
  results = {
    "eval_loss": np.asarray(terms["example_loss"]).mean(),
    "eval_accuracy": metrics.accuracy(predictions, labels),
  }
  table = metrics.classification_report(_names(logits), predictions, labels)
  logging.info("\n%s", table)
  report.write_evaluation(args.output_dir, results, step)
  return results


def predict(args: Arguments, model, part: RecordDataset) -> None:
  """Writes the predictions for --test_file."""
  outputs = compiled_model.outputs(model, part, args.predict_batch_size)
  paths = write_predictions(args.output_dir, outputs["logits"], part.examples)
  logging.info("wrote %s", ", ".join(paths))


def write_predictions(
  folder: str, logits: np.ndarray, choices: Sequence[ChoiceExample]
) -> list[str]:
  """Writes test_results.tsv (probabilities only) and test_predictions.tsv.

  The latter has a header: number of the example, predicted ending, its text,
  and the probability of each ending. logits are [N, C]. Returns the paths.
  """
  probabilities = metrics.softmax(logits).astype(np.float32)
  result_path = os.path.join(folder, "test_results.tsv")
  metrics.write_results(result_path, probabilities)
  table = [["number", "prediction", "text", *_names(logits)]]
  rows = zip(choices, probabilities, strict=True)
  for number, (example, row) in enumerate(rows):
    choice = int(np.argmax(row))
    text = " ".join(example.endings[choice].split())
    table.append([str(number), str(choice), text, *map(str, row)])
  table_path = os.path.join(folder, "test_predictions.tsv")
  metrics.write_table(table_path, table)
  return [result_path, table_path]


def _names(logits):
  return [f"ending{number}" for number in range(logits.shape[1])]


def served_model(args: Arguments) -> ServedModel:
  """Untrained model and its serving task: contexts, endings to a choice."""
  task = MultipleChoice(
    GraphTokenizer(args.vocab_file, args.do_lower_case), args.max_seq_length
  )
  return ServedModel(models.multiple_choice(encoder.config(args)), task)
