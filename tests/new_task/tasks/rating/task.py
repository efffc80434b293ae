"""The task of rating texts: data, model, evaluation, predictions, export."""

import os
from functools import partial

import keras
import numpy as np
from tasks.rating.answers import Answers
from tasks.rating.examples import RatingRecordBuilder
from tasks.rating.head import RatingHead, absolute_error
from tasks.rating.settings import Settings  # noqa: F401, of this task

from data import features
from data.records import RecordDataset
from data.write_records import write_records
from modeling import models
from runs import model_files
from runs.devices import length_multiple
from runs.fine_tune import Task
from serving.answers import TextConfig
from serving.export import ServedModel
from tasks import metrics
from training import loop


class Rating(Task):
  """Rates texts, and compares ratings with the labels."""

  metric = "eval_pearson"

  def make_model(self, config):
    """Returns the encoder with the new head: tokens -> `rating` [B]."""

    def make():
      bert = models.encoder(config)
      sequence = bert.output["sequence_output"]
      rating = RatingHead(config)(sequence, bert.input["input_mask"])
      return keras.Model(bert.input, {"rating": rating})

    parts = [make() for _ in range(self.settings.ensemble)]
    return models.ensemble(parts, models.mean_values)

  def objective(self):
    return absolute_error()

  def convert(self, split):
    """Converts the examples of a split to records."""
    settings = self.settings
    rows = self.examples[split][: settings.max_examples]
    length = settings.max_seq_length
    build = partial(RatingRecordBuilder, settings.tokenizer, length)
    schema = features.classification(length, dtype="float32")
    path = self.records_file(split)
    write_records(path, schema, rows, build)
    multiple = length_multiple(settings, length, split)
    return RecordDataset(rows, path, schema, multiple)

  def evaluate(self, model, records):
    """Returns the mean absolute difference and correlation with the labels."""
    batch_size = self.settings.eval_batch_size
    ratings = loop.outputs(model, records, batch_size)["rating"]
    labels = np.array([example.rating for example in records.rows])
    return {
      "eval_mean_difference": np.abs(ratings - labels).mean(),
      "eval_pearson": metrics.score("pearson", ratings, labels),
    }

  def predict(self, model, split, records, step):
    """Writes test_results.tsv, a number a line."""
    batch_size = self.settings.predict_batch_size
    ratings = loop.outputs(model, records, batch_size)["rating"]
    path = os.path.join(self.settings.output_dir, "test_results.tsv")
    metrics.write_results(path, ratings)

  @staticmethod
  def served_model(settings):
    """Returns an untrained model and its Answers."""
    texts = TextConfig(settings.tokenizer, settings.max_seq_length)
    model = Rating(settings, {}).make_model(model_files.config(settings))
    return ServedModel(model, Answers(texts))


served_model = Rating.served_model
