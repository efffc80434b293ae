"""run_classifier.py: data, evaluation, predictions, export."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from data import features, labels, vocab_checks
from data.records import RecordDataset
from data.write_records import log_lengths, write_records
from modeling import losses, models
from modeling.config import BertConfig
from runs import checks, model_files
from runs.devices import length_multiple
from runs.fine_tune import Task
from runs.session import text_windows
from serving.answers import Encoded, TextConfig
from serving.export import ServedModel, TextSignature
from serving.run_page import Evaluation, Judged
from storage import files, processes
from tasks.classification import examples, metrics, named_tasks
from tasks.classification.answers import Answers
from tasks.classification.examples import ClassificationTask, TextExample
from tasks.classification.named_tasks import Settings
from tasks.metrics import classification_report
from training import checkpoint_files, loop


class TextClassification(TextSignature):
  """TensorFlow graph from texts to labels or scores."""

  def from_text(self, model, **texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Computes what Answers.decode returns. Each input is [B] string.

    `predicted`, [B, up to L], is padded with "".
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
      number = tf.cast(predicted.row_lengths(), tf.int32)
      answer = {"predicted": predicted.to_tensor(), "num_predicted": number}
    else:
      probabilities = tf.nn.softmax(logits)
      answer = {"label": tf.gather(names, tf.argmax(logits, axis=-1))}
    return answer | {"probabilities": probabilities, "labels": labels}


def with_thresholds(
  settings: Settings, named: ClassificationTask
) -> ClassificationTask:
  """Adds thresholds: from --output_dir, --init_checkpoint's folder, or 0.5."""
  if not named.multi_label:
    return named
  path = settings.threshold_file(labels.THRESHOLDS)
  start = checks.labels_file(settings)
  if start and not files.exists(path):
    path = os.path.join(os.path.dirname(start), os.path.basename(path))
  return replace(named, thresholds=metrics.load_thresholds(named, path))


def objective(
  named: ClassificationTask, class_weights: Sequence[float] = ()
) -> losses.Objective:
  """Makes the loss: cross entropy of labels, or squared error of scores."""
  if named.is_regression:
    return losses.regression()
  if named.multi_label:
    return losses.multi_label(class_weights)
  return losses.classification(class_weights)


@dataclass(frozen=True)
class Classification(Task[Settings]):
  """Classifies texts or pairs; `named` is the task of --task_name."""

  named: ClassificationTask = field(kw_only=True)

  @property
  def metric(self) -> str:
    return f"eval_{self.named.metrics[0]}"

  def make_model(self, config: BertConfig) -> keras.Model:
    """Makes a classifier of texts, or of windows of texts, or an ensemble."""
    named, windows = self.named, text_windows(self.settings)
    combine = models.mean_odds if named.multi_label else models.mean_probs
    combine = models.mean_values if named.is_regression else combine
    size, number = len(named.labels) or 1, self.settings.ensemble
    parts = [models.classifier(config, size, windows) for _ in range(number)]
    return models.ensemble(parts, combine)

  def objective(self) -> losses.Objective:
    return objective(self.named, self.class_weights())

  def class_weights(self) -> tuple[float, ...]:
    """Weights of the labels by --class_weights; () without the flag.

    Labels that the flag does not name weigh 1. "balanced" gives N / (L x
    examples of the label), or with --multi_label, texts without the label /
    texts with the label. A weight that would be 0 or infinite is 1.
    """
    settings, named = self.settings, self.named
    if not settings.class_weights:
      return ()
    if known := examples.class_weights(settings.class_weights, named):
      return tuple(known.get(label, 1.0) for label in named.labels)
    rows = self.examples["train"][: settings.max_examples]
    numbers = Counter(_label_names(named, rows))
    counts = np.array([numbers[name] for name in named.labels])
    if named.multi_label:
      weights = (len(rows) - counts) / np.maximum(counts, 1)
    else:
      weights = len(rows) / (len(counts) * np.maximum(counts, 1))
    weights = np.where((counts > 0) & (weights > 0), weights, 1.0)
    pairs = zip(named.labels, weights, strict=True)
    text = ", ".join(f"{name} {weight:.3g}" for name, weight in pairs)
    logging.info("class weights: %s", text)
    return tuple(weights.tolist())

  def convert(self, split: str) -> RecordDataset:
    """Writes a split's records to train, eval or predict.tf_record.

    A suffix stays: dev_mismatched becomes eval_mismatched.tf_record.
    """
    settings, named, rows = self.settings, self.named, self.examples[split]
    kind = split.partition("_")[0]
    file = named.splits[split].file
    if named.labels and rows[0].label is not None:
      expected = named.labels if split == "train" else ()
      unit = "label" if named.multi_label else "example"
      labels.log_labels(file, _label_names(named, rows), expected, unit)
    vocab_checks.warn_of_examples(
      lambda row: (row.text_a, row.text_b), rows, settings.tokenizer, file
    )
    rows = rows[: settings.max_examples]
    filled: Sequence[TextExample | None] = rows
    if settings.on_tpu and kind != "train":
      # TPUs need batches of a fixed size. Padding records fill the last batch.
      sizes = settings.eval_batch_size, settings.predict_batch_size
      filled = [*rows, *[None] * (-len(rows) % sizes[kind == "test"])]
    length, multi_label = settings.row_length, named.multi_label
    shape = (len(named.labels),) if multi_label else ()
    dtype = "float32" if named.is_regression else "int64"
    schema = features.classification(length, shape, dtype)
    path = self.records_file(split)
    layout = settings.tokenizer, length, named.labels, multi_label
    build = partial(examples.TextRecordBuilder, *layout)
    lengths = write_records(path, schema, filled, build, settings.num_workers)
    log_lengths(file, lengths, length, flag=settings.row_length_flag)
    multiple = length_multiple(settings, length, split)
    return RecordDataset(rows, path, schema, multiple, lengths=lengths)

  def is_evaluated(self) -> bool:
    settings = self.settings
    path = settings.threshold_file(labels.THRESHOLDS)
    is_best = settings.keeps_best or files.is_remote(path)
    if is_best or not settings.multi_label:
      return True
    trained = checkpoint_files.latest_checkpoint(settings.output_dir)
    paths = f"{trained}.index", path
    return files.exists(path) and sorted(paths, key=os.path.getmtime)[1] == path

  def evaluate(self, model: keras.Model, records: RecordDataset) -> Evaluation:
    """Computes scores; finds and saves thresholds if `fits_thresholds`.

    Does not save the thresholds if an earlier model is best.
    """
    settings, named = self.settings, self.named
    fits = named_tasks.fits_thresholds(settings)
    batch_size, rows = settings.eval_batch_size, records.rows
    logits = loop.outputs(model, records, batch_size)["logits"]
    label_ids = metrics.label_ids(named, rows)
    is_multi = named.multi_label
    outputs = metrics.probabilities(named, logits) if is_multi else logits
    if fits:  # only with several labels
      best = map(metrics.best_threshold, outputs.T, label_ids.T)
      named = replace(named, thresholds=tuple(best))
    else:
      named = with_thresholds(settings, named)
    batch = {"label_ids": label_ids}
    terms = objective(named).losses({"logits": logits}, batch)
    example_loss = np.asarray(terms["example_loss"])
    if not named.is_regression:
      predicted = metrics.predictions(named, outputs)
      table = classification_report(named.labels, predicted, label_ids)
      logging.info("\n%s", table)
    scores = metrics.results(named, outputs, example_loss, rows, batch_size)
    if fits and self.is_best(scores[self.metric]) and processes.is_chief():
      path = settings.threshold_file(labels.THRESHOLDS)
      metrics.save_thresholds(named, path)
    return Evaluation(scores, _judged(settings, named, rows, logits))

  def predict(
    self, model: keras.Model, split: str, records: RecordDataset, step: int
  ) -> None:
    """Writes predictions for a split; logs metrics if labels are known."""
    settings, rows = self.settings, records.rows
    named = with_thresholds(settings, self.named)
    batch_size = settings.predict_batch_size
    logits = loop.outputs(model, records, batch_size)["logits"]
    metrics.write_predictions(settings.output_dir, named, split, logits, rows)
    if rows[0].label is not None:  # only XNLI's test file has labels
      logging.info("%s", metrics.evaluate(named, logits, rows))

  @staticmethod
  def served_model(settings: Settings) -> ServedModel:
    checks.check_head(settings, "multi_label")
    start = checks.labels_file(settings)
    named = with_thresholds(settings, named_tasks.with_labels(settings, start))
    texts = Classification(settings, {}, named=named)
    model = texts.make_model(model_files.config(settings))
    return ServedModel(model, _answers(settings, named), TextClassification)


def _answers(settings: Settings, named: ClassificationTask) -> Answers:
  names = None if named.is_regression else named.labels
  texts = TextConfig(settings.tokenizer, settings.row_length, names)
  return Answers(texts, named.has_pairs, named.thresholds)


def _label_names(named, rows) -> Iterator[str]:
  names = (row.label for row in rows)
  return chain.from_iterable(names) if named.multi_label else names


def _judged(settings, named, rows, logits) -> Iterator[Judged]:
  answers = _answers(settings, named)
  for row, values in zip(rows, logits, strict=True):
    answer = answers.decode(Encoded([]), [{"logits": values}])
    given = dict(zip(answers.inputs, (row.text_a, row.text_b), strict=False))
    if named.is_regression:
      score = str(np.float32(answer["score"]))
      yield Judged(given, answer, str(row.label), score, None)
    elif named.multi_label:
      label, predicted = map(labels.join, (row.label, answer["predicted"]))
      is_right = {*row.label} == {*answer["predicted"]}
      yield Judged(given, answer, label, predicted, is_right)
    else:
      pair = row.label, answer["label"]
      yield Judged(
        given,
        answer,
        *pair,
        is_right=row.label == answer["label"],
        # A model that diverged has None instead of probabilities.
        probability=np.max(np.array(answer["probabilities"], float)),
        pairs=[pair],
        truth=answer["labels"].index(row.label),
      )


served_model = Classification.served_model
