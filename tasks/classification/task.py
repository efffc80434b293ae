"""Flags of run_classifier.py -> data, evaluation, predictions, export."""

import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from data import labels, vocab_checks
from data.records import RecordDataset
from data.text_lengths import log_lengths
from data.write_records import write_records
from modeling import losses, models
from modeling.config import BertConfig
from runs import checks, contradictions, session
from runs.session import text_windows
from serving.answers import TextConfig
from serving.export import ServedModel, TextSignature
from storage import files
from tasks.classification import examples, metrics, named_tasks
from tasks.classification.answers import Answers
from tasks.classification.examples import ClassificationTask, TextExample
from tasks.classification.named_tasks import TaskFlags
from tasks.classification.settings import Settings
from tasks.metrics import RECORDS, classification_report
from training import inference, report

# Records by the name of their split.
Splits = dict[str, RecordDataset]


def make_model(
  args: Settings, task: ClassificationTask, config: BertConfig
) -> keras.Model:
  """A classifier of texts, or of their windows with --long_text=windows."""
  windows = text_windows(args)
  combine = models.mean_odds if task.multi_label else models.mean_probs
  return models.ensemble(
    lambda: models.classifier(config, len(task.labels) or 1, windows),
    args.ensemble,
    models.mean_values if task.is_regression else combine,
  )


def with_thresholds(
  args: Settings, task: ClassificationTask
) -> ClassificationTask:
  """The task with the thresholds that lie beside its labels, else of 0.5."""
  if not task.multi_label:
    return task
  path = metrics.thresholds_file(args.output_dir, args.ensemble)
  checkpoint_labels = checks.labels_file(args)
  if checkpoint_labels and not files.exists(path):
    folder = os.path.dirname(checkpoint_labels)
    path = metrics.thresholds_file(folder, args.ensemble)
  return replace(task, thresholds=metrics.load_thresholds(task, path))


def objective(
  task: ClassificationTask, class_weights: Sequence[float] = ()
) -> losses.Objective:
  """Cross entropy of labels, or squared error of scores."""
  if task.is_regression:
    return losses.regression()
  if task.multi_label:
    return losses.multi_label(class_weights)
  return losses.classification(class_weights)


def class_weights(
  args: Settings, task: ClassificationTask, rows: Sequence[TextExample]
) -> tuple[float, ...]:
  """Weights of the task's labels by --class_weights; () without the flag.

  balanced: N / (L x examples of a label); with --multi_label, texts without a
  label / texts with it. Other labels have 1.
  """
  if not args.class_weights:
    return ()
  if named := examples.class_weights(args.class_weights, task):
    return tuple(named.get(label, 1.0) for label in task.labels)
  ids = metrics.label_ids(task, rows)
  if task.multi_label:
    counts = ids.sum(axis=0)
    weights = (len(ids) - counts) / np.maximum(counts, 1)
  else:
    counts = np.bincount(ids, minlength=len(task.labels))
    weights = len(ids) / (len(counts) * np.maximum(counts, 1))
  weights = np.where((counts > 0) & (weights > 0), weights, 1.0)
  pairs = zip(task.labels, weights, strict=True)
  text = ", ".join(f"{name} {weight:.3g}" for name, weight in pairs)
  logging.info("class weights: %s", text)
  return tuple(weights.tolist())


def convert(
  args: Settings,
  task: ClassificationTask,
  split: str,
  rows: Sequence[TextExample],
) -> RecordDataset:
  """Converts a split, as dev_mismatched to eval_mismatched.tf_record."""
  kind = split.partition("_")[0]
  name = split.replace(kind, RECORDS[f"{kind}_file"], 1)
  file = task.splits[split].file
  if task.labels and rows[0].label is not None:
    expected = task.labels if split == "train" else ()
    unit = "label" if task.multi_label else "example"
    names: Iterable[Any] = (row.label for row in rows)
    if task.multi_label:
      names = itertools.chain.from_iterable(names)
    labels.log_labels(file, names, expected, unit)
  vocab_checks.warn_of_examples(
    lambda row: (row.text_a, row.text_b), rows, args.tokenizer, file
  )
  rows = rows[: args.max_examples]
  static_shapes = session.needs_static_shapes(args, args.pack_examples)
  sizes = {"dev": args.eval_batch_size, "test": args.predict_batch_size}
  batch_size = sizes.get(kind, 1) if static_shapes else 1
  length = args.row_length
  layout = (length, task.labels, task.multi_label)
  schema = examples.record_schema(*layout)
  path = os.path.join(args.output_dir, f"{name}.tf_record")
  lengths = write_records(
    path,
    schema,
    # TPUs need batches of a fixed size: None fills the last one.
    [*rows, *[None] * (-len(rows) % batch_size)],
    partial(examples.TextRecordBuilder, args.tokenizer, *layout),
    args.num_workers,
  )
  flag = args.row_length_flag
  log_lengths(file, lengths, length, flag=flag)
  return RecordDataset(rows, path, schema, static_shapes, lengths=lengths)


def evaluate(
  args: Settings,
  task: ClassificationTask,
  model,
  dev_sets: Splits,
  fits_thresholds: bool,
  step: int,
) -> dict[str, float]:
  """Writes eval_results.txt of each dev set; returns those of "dev".

  With `fits_thresholds` finds and writes the thresholds of the best F1 first.
  """
  results = {}
  for split, part in dev_sets.items():
    logging.info("evaluation on %s at step %d", split, step)
    logits = inference.outputs(model, part, args.eval_batch_size)["logits"]
    if fits_thresholds:
      probs = metrics.probabilities(task, logits)
      is_label = metrics.label_ids(task, part.rows)
      best = map(metrics.best_threshold, probs.T, is_label.T)
      task = replace(task, thresholds=tuple(best))
      metrics.save_thresholds(
        task, metrics.thresholds_file(args.output_dir, args.ensemble)
      )
    results[split] = _results(task, logits, part, args.eval_batch_size)
    suffix = split.removeprefix("dev")
    report.write_evaluation(args.output_dir, results[split], step, suffix)
  return results["dev"]


def _results(task, logits, part, batch_size):
  label_ids = metrics.label_ids(task, part.rows)
  terms = objective(task).losses({"logits": logits}, {"label_ids": label_ids})
  example_loss = np.asarray(terms["example_loss"])
  outputs = metrics.probabilities(task, logits) if task.multi_label else logits
  results = metrics.results(task, outputs, example_loss, part.rows, batch_size)
  if not task.is_regression:
    predicted = metrics.predictions(task, outputs)
    table = classification_report(task.labels, predicted, label_ids)
    logging.info("\n%s", table)
  return results


def predict(
  args: Settings, task: ClassificationTask, model, test_sets: Splits
) -> None:
  """Writes the predictions of test sets; logs metrics if they have labels."""
  task = with_thresholds(args, task)
  for split, part in test_sets.items():
    logits = inference.outputs(model, part, args.predict_batch_size)["logits"]
    metrics.write_predictions(args.output_dir, task, split, logits, part.rows)
    if part.rows[0].label is not None:  # XNLI
      logging.info("%s", metrics.evaluate(task, logits, part.rows))


class TextClassification(TextSignature):
  """Texts to predictions in the graph."""

  def from_text(self, model, **texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Answers.decode of texts, [B] string each, by `logits` [B, L].

    `predicted` [B, up to L] is padded with "".
    """
    inputs = self._encode(*(texts[name] for name in self._answers.inputs))
    logits = model(inputs, training=False)["logits"]
    if self._answers.config.labels is None:
      return {"score": logits[:, 0]}
    names = tf.constant(self._answers.config.labels)
    labels = tf.tile(names[None], [tf.shape(logits)[0], 1])
    if thresholds := self._answers.settings.get("thresholds"):
      probabilities = tf.sigmoid(logits)
      is_predicted = probabilities >= tf.constant(thresholds, tf.float32)
      predicted = tf.ragged.boolean_mask(labels, is_predicted)
      answer = {
        "predicted": predicted.to_tensor(),
        "num_predicted": tf.cast(predicted.row_lengths(), tf.int32),
      }
    else:
      probabilities = tf.nn.softmax(logits)
      answer = {"label": tf.gather(names, tf.argmax(logits, axis=-1))}
    return answer | {"probabilities": probabilities, "labels": labels}


def served_model(args: Settings) -> ServedModel:
  """Untrained model and its answers: texts to a label or a score."""
  checks.check_head(args, "multi_label")
  contradictions.check_windows(args)
  task = named_tasks.with_labels(
    args.select(TaskFlags), checks.labels_file(args)
  )
  task = with_thresholds(args, task)
  texts = TextConfig(
    args.tokenizer,
    args.row_length,
    None if task.is_regression else task.labels,
  )
  return ServedModel(
    make_model(args, task, checks.config(args)),
    Answers(texts, task.has_pairs, task.thresholds),
    TextClassification,
  )
