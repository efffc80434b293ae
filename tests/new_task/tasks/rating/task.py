"""Flags of run_rating.py -> data, evaluation, predictions, export."""

import os
from functools import partial

import keras
import numpy as np
from tasks.rating.answers import Answers
from tasks.rating.examples import RatingRecordBuilder
from tasks.rating.head import RatingHead
from tasks.rating.settings import Settings  # noqa: F401, of this task

from data import features
from data.records import RecordDataset
from data.write_records import write_records
from modeling import models
from runs import checks, session
from serving.answers import TextConfig
from serving.export import ServedModel
from tasks import metrics
from training import inference, report


def make_model(args, config):
  """The encoder with the new head: tokens -> `rating` [B]."""

  def make():
    bert = models.encoder(config)
    sequence = bert.output["sequence_output"]
    rating = RatingHead(config)(sequence, bert.input["input_mask"])
    return keras.Model(bert.input, {"rating": rating})

  return models.ensemble(make, args.ensemble, models.mean_values)


def convert(args, flag, examples):
  """Converts the examples of a flag's file to <flag>.tf_record."""
  examples = examples[: args.max_examples]
  build = partial(RatingRecordBuilder, args.tokenizer, args.max_seq_length)
  schema = features.classification(args.max_seq_length, dtype="float32")
  path = os.path.join(args.output_dir, f"{flag}.tf_record")
  write_records(path, schema, examples, build)
  static_shapes = session.needs_static_shapes(args)
  return RecordDataset(examples, path, schema, static_shapes)


def evaluate(args, model, data, step):
  """Writes eval_results.txt and returns its values."""
  ratings = inference.outputs(model, data, args.eval_batch_size)["rating"]
  labels = np.array([example.rating for example in data.rows])
  results = {
    "eval_mean_difference": np.abs(ratings - labels).mean(),
    "eval_pearson": metrics.score("pearson", ratings, labels),
  }
  report.write_evaluation(args.output_dir, results, step)
  return results


def predict(args, model, data):
  """Writes test_results.tsv, a number a line."""
  ratings = inference.outputs(model, data, args.predict_batch_size)["rating"]
  metrics.write_results(
    os.path.join(args.output_dir, "test_results.tsv"), ratings
  )


def served_model(args):
  """Untrained model and its answers: texts to numbers."""
  config = TextConfig(args.tokenizer, args.max_seq_length)
  return ServedModel(make_model(args, checks.config(args)), Answers(config))
