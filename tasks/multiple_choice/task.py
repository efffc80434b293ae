"""run_swag.py: data, training, evaluation, predictions, export.

N is the number of examples, C is the number of endings of an example.
"""

import os
from functools import partial

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from data import features, vocab_checks
from data.records import RecordDataset
from data.write_records import log_lengths, write_records
from modeling import losses, models
from modeling.config import BertConfig
from runs import model_files
from runs.devices import length_multiple
from runs.fine_tune import Task
from serving.answers import Encoded, TextConfig, softmax
from serving.export import ServedModel, TextSignature
from serving.run_page import Evaluation, Judged
from tasks import metrics
from tasks.multiple_choice.answers import Answers
from tasks.multiple_choice.examples import ChoiceRecordBuilder, Settings
from training import loop


class MultipleChoice(TextSignature):
  """TensorFlow graph from texts to the best ending."""

  def from_text(
    self, model, sent1: tf.Tensor, sent2: tf.Tensor, choices: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    """Computes what Answers.decode returns; inputs: [B], [B], [B, C] string."""
    batch, number = tf.unstack(tf.shape(choices))
    starts, ends = tf.repeat(sent2, number), tf.reshape(choices, [-1])
    text_b = tf.strings.join([starts, ends], " ")
    rows = self._encode(tf.repeat(sent1, number), text_b, keep_empty=True)
    shape = [batch, number, tf.shape(rows["input_ids"])[1]]
    inputs = {name: tf.reshape(value, shape) for name, value in rows.items()}
    logits = model(inputs, training=False)["logits"]
    choice = tf.argmax(logits, axis=-1, output_type=tf.int32)
    answer = {"choice": choice, "probabilities": tf.nn.softmax(logits)}
    return answer | {"text": tf.gather(choices, choice, batch_dims=1)}


class Swag(Task[Settings]):
  """Chooses the right ending of a text from several endings."""

  metric = "eval_accuracy"

  def make_model(self, config: BertConfig) -> keras.Model:
    number = self.settings.ensemble
    parts = [models.multiple_choice(config) for _ in range(number)]
    return models.ensemble(parts, models.mean_probs)

  def objective(self) -> losses.Objective:
    return losses.classification()

  def convert(self, split: str) -> RecordDataset:
    settings, tokenizer = self.settings, self.settings.tokenizer
    file, length = settings[f"{split}_file"], settings.max_seq_length
    rows = self.examples[split][: settings.max_examples]
    vocab_checks.warn_of_examples(
      lambda row: (row.sent1, row.sent2, *row.endings), rows, tokenizer, file
    )
    build = partial(ChoiceRecordBuilder, tokenizer, length)
    schema = features.multiple_choice(length, len(rows[0].endings))
    path = self.records_file(split)
    lengths = write_records(path, schema, rows, build, settings.num_workers)
    log_lengths(file, lengths, length)
    multiple = length_multiple(settings, length, split)
    return RecordDataset(rows, path, schema, multiple, lengths=lengths)

  def evaluate(self, model: keras.Model, records: RecordDataset) -> Evaluation:
    batch_size = self.settings.eval_batch_size
    logits = loop.outputs(model, records, batch_size)["logits"]
    labels = np.array([example.label for example in records.rows])
    predictions = np.argmax(logits, -1)
    terms = self.objective().losses({"logits": logits}, {"label_ids": labels})
    table = metrics.classification_report(_names(logits), predictions, labels)
    logging.info("\n%s", table)
    loss = np.asarray(terms["example_loss"]).mean()
    accuracy = metrics.score("accuracy", predictions, labels)
    scores = {"eval_loss": loss, "eval_accuracy": accuracy}
    return Evaluation(scores, self._judged(records.rows, logits))

  def _judged(self, rows, logits):
    settings = self.settings
    texts = TextConfig(settings.tokenizer, settings.max_seq_length)
    answers = Answers(texts)
    for row, values in zip(rows, logits, strict=True):
      answer = answers.decode(Encoded([], row.endings), [{"logits": values}])
      choice = answer["choice"]
      yield Judged(
        {"sent1": row.sent1, "sent2": row.sent2, "choices": row.endings},
        answer,
        row.endings[row.label],
        answer["text"],
        is_right=choice == row.label,
        probability=np.max(np.array(answer["probabilities"], float)),
        truth=row.label,
      )

  def predict(
    self, model: keras.Model, split: str, records: RecordDataset, step: int
  ) -> None:
    """Writes test_results.tsv (only probabilities) and test_predictions.tsv.

    A row of test_predictions.tsv has the example's number, the predicted
    ending's number and text, and all probabilities.
    """
    folder = self.settings.output_dir
    batch_size = self.settings.predict_batch_size
    logits = loop.outputs(model, records, batch_size)["logits"]
    probs = softmax(logits).astype(np.float32)
    metrics.write_results(os.path.join(folder, "test_results.tsv"), probs)
    table = [["number", "prediction", "text", *_names(logits)]]
    rows = zip(records.rows, probs, strict=True)
    for number, (example, row) in enumerate(rows):
      choice = int(np.argmax(row))
      text = " ".join(example.endings[choice].split())
      table.append([str(number), str(choice), text, *map(str, row)])
    metrics.write_table(os.path.join(folder, "test_predictions.tsv"), table)

  @staticmethod
  def served_model(settings: Settings) -> ServedModel:
    texts = TextConfig(settings.tokenizer, settings.max_seq_length)
    model = Swag(settings, {}).make_model(model_files.config(settings))
    answers = Answers(texts, is_ensemble=settings.ensemble > 1)
    return ServedModel(model, answers, MultipleChoice)


served_model = Swag.served_model


def _names(logits):
  return [f"ending{number}" for number in range(logits.shape[1])]
