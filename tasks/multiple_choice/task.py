"""Flags of run_swag.py -> data, evaluation, predictions, export; C choices."""

import os
from collections.abc import Sequence
from functools import partial

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from data import features, vocab_checks
from data.records import RecordDataset
from data.text_lengths import log_lengths
from data.write_records import write_records
from modeling import losses, models
from modeling.config import BertConfig
from runs import checks, session
from serving.answers import TextConfig, softmax
from serving.export import ServedModel, TextSignature
from tasks import metrics
from tasks.multiple_choice.answers import Answers
from tasks.multiple_choice.examples import ChoiceExample, ChoiceRecordBuilder
from tasks.multiple_choice.settings import Settings
from training import inference, report


def convert(
  args: Settings, flag: str, rows: Sequence[ChoiceExample]
) -> RecordDataset:
  """Converts rows of a flag's file to train, eval or predict.tf_record."""
  file = args[flag]
  rows = rows[: args.max_examples]
  vocab_checks.warn_of_examples(
    lambda row: (row.sent1, row.sent2, *row.endings), rows, args.tokenizer, file
  )
  build = partial(ChoiceRecordBuilder, args.tokenizer, args.max_seq_length)
  schema = features.multiple_choice(args.max_seq_length, len(rows[0].endings))
  path = os.path.join(args.output_dir, f"{metrics.RECORDS[flag]}.tf_record")
  lengths = write_records(path, schema, rows, build, args.num_workers)
  log_lengths(file, lengths, args.max_seq_length)
  static_shapes = session.needs_static_shapes(args, args.pack_examples)
  return RecordDataset(rows, path, schema, static_shapes, lengths=lengths)


def evaluate(
  args: Settings, model, part: RecordDataset, step: int
) -> dict[str, float]:
  """Writes eval_results.txt and returns its values."""
  logging.info("evaluation at step %d", step)
  logits = inference.outputs(model, part, args.eval_batch_size)["logits"]
  labels = np.array([example.label for example in part.rows])
  predictions = np.argmax(logits, -1)
  batch = {"label_ids": labels}
  terms = losses.classification().losses({"logits": logits}, batch)
  results = {
    "eval_loss": np.asarray(terms["example_loss"]).mean(),
    "eval_accuracy": metrics.score("accuracy", predictions, labels),
  }
  table = metrics.classification_report(_names(logits), predictions, labels)
  logging.info("\n%s", table)
  report.write_evaluation(args.output_dir, results, step)
  return results


def predict(args: Settings, model, part: RecordDataset) -> None:
  """Writes the predictions for --test_file."""
  outputs = inference.outputs(model, part, args.predict_batch_size)
  write_predictions(args.output_dir, outputs["logits"], part.rows)


def write_predictions(
  folder: str, logits: np.ndarray, choices: Sequence[ChoiceExample]
) -> None:
  """Writes test_results.tsv (probabilities only) and test_predictions.tsv.

  The latter has the example's number, the predicted ending, its text, and all
  probabilities. logits are [N, C].
  """
  probs = softmax(logits).astype(np.float32)
  metrics.write_results(os.path.join(folder, "test_results.tsv"), probs)
  table = [["number", "prediction", "text", *_names(logits)]]
  rows = zip(choices, probs, strict=True)
  for number, (example, row) in enumerate(rows):
    choice = int(np.argmax(row))
    text = " ".join(example.endings[choice].split())
    table.append([str(number), str(choice), text, *map(str, row)])
  metrics.write_table(os.path.join(folder, "test_predictions.tsv"), table)


def _names(logits):
  return [f"ending{number}" for number in range(logits.shape[1])]


class MultipleChoice(TextSignature):
  """Endings for contexts in the graph."""

  def from_text(
    self, model, sent1: tf.Tensor, sent2: tf.Tensor, choices: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    """Answers.decode of `sent1` and `sent2`, [B] string, `choices` [B, C]."""
    batch, number = tf.unstack(tf.shape(choices))
    starts, ends = tf.repeat(sent2, number), tf.reshape(choices, [-1])
    text_b = tf.strings.join([starts, ends], " ")
    rows = self._encode(tf.repeat(sent1, number), text_b, keep_empty=True)
    shape = [batch, number, tf.shape(rows["input_ids"])[1]]
    inputs = {name: tf.reshape(value, shape) for name, value in rows.items()}
    logits = model(inputs, training=False)["logits"]
    choice = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return {
      "choice": choice,
      "text": tf.gather(choices, choice, batch_dims=1),
      "probabilities": tf.nn.softmax(logits),
    }


def served_model(args: Settings) -> ServedModel:
  """Untrained model and its answers: contexts, endings to a choice."""
  model = make_model(args, checks.config(args))
  texts = TextConfig(args.tokenizer, args.max_seq_length)
  return ServedModel(model, Answers(texts), MultipleChoice)


def make_model(args: Settings, config: BertConfig) -> keras.Model:
  """A multiple-choice model, or an ensemble of them."""
  return models.ensemble(
    lambda: models.multiple_choice(config), args.ensemble, models.mean_probs
  )
