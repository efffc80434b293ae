"""Flags of run_ner.py -> data, evaluation, predictions, export."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import keras
import numpy as np
from absl import logging

from data import labels, vocab_checks
from data.features import TOKENS
from data.records import RecordDataset
from data.text_lengths import log_lengths
from modeling import losses, models
from modeling.config import BertConfig
from runs import checks, session
from serving.answers import TextConfig
from serving.export import ServedModel
from storage import tfrecord
from storage.progress import Progress
from tasks.metrics import RECORDS
from tasks.ner import metrics, records
from tasks.ner.answers import Answers
from tasks.ner.examples import Sentence
from tasks.ner.settings import Settings
from training import inference, report


@dataclass(frozen=True)
class TagRecords(RecordDataset):
  """Sentences, and the records of their windows, the `rows`."""

  token_fields = (*TOKENS, "label_ids")

  sentences: Sequence[Sentence]


def convert(
  args: Settings, flag: str, sentences: Sequence[Sentence], tags: Sequence[str]
) -> TagRecords:
  """Converts sentences of a flag's file to train, eval or predict.tf_record."""
  file = args[flag]
  length = args.max_seq_length
  vocab_checks.warn_of_examples(
    lambda sentence: (" ".join(sentence.words),),
    sentences,
    args.tokenizer,
    file,
  )
  sentences = sentences[: args.max_examples]
  build = records.TagRecordBuilder(
    args.tokenizer, length, tags, args.document_context
  )
  progress = Progress("cut", len(sentences), "sentences")
  windows = []

  def rows():
    for row, window in build(sentences):
      progress.add(window.word == 0)
      windows.append(window)
      yield row

  path = os.path.join(args.output_dir, f"{RECORDS[flag]}.tf_record")
  tfrecord.save(path, build.schema, rows())
  progress.say()
  remedy = "they are cut into parts"
  log_lengths(file, build.lengths, length, remedy)
  static_shapes = session.needs_static_shapes(args, args.pack_examples)
  return TagRecords(
    windows, path, build.schema, static_shapes, sentences, lengths=build.lengths
  )


def _word_logits(model, dataset, batch_size) -> np.ndarray:
  """The model's logits for the words of a file, [words, tags]."""
  outputs = inference.outputs(model, dataset, batch_size)
  return records.first_piece_values(outputs["logits"], dataset.rows)


def evaluate(
  args: Settings, model, tags: Sequence[str], dataset: TagRecords, step: int
) -> tuple[dict[str, float], np.ndarray]:
  """Writes eval_results.txt; returns it and the logits, [words, tags]."""
  logging.info("evaluation at step %d", step)
  sentences = dataset.sentences
  logits = _word_logits(model, dataset, args.eval_batch_size)
  label_ids = {"label_ids": metrics.label_ids(tags, sentences)}
  terms = losses.tagging().losses({"logits": logits}, label_ids)
  scores = metrics.score(logits, tags, sentences)
  results = metrics.results(scores, np.asarray(terms["word_loss"]))
  report.write_evaluation(args.output_dir, results, step)
  return results, logits


def predict(
  args: Settings, model, tags: Sequence[str], dataset: TagRecords
) -> None:
  """Writes the predicted tags of a file; logs scores if it has tags."""
  sentences = dataset.sentences
  logits = _word_logits(model, dataset, args.predict_batch_size)
  metrics.write_predictions(args.output_dir, "test", logits, tags, sentences)
  if sentences[0].tags is not None:
    metrics.score(logits, tags, sentences)


def tagger(
  args: Settings, config: BertConfig, num_tags: int, any_device: bool = False
) -> keras.Model:
  """BERT with a tag head; with --feature_based an LSTM on a frozen BERT."""

  def make():
    if not args.feature_based:
      return models.tagger(config, num_tags)
    return models.feature_based_tagger(
      config, num_tags, args.feature_layers, args.lstm_units, any_device
    )

  return models.ensemble(make, args.ensemble, models.mean_probs)


def served_model(args: Settings) -> ServedModel:
  """Untrained model and its answers: sentences to tags of words."""
  if args.document_context:
    logging.warning("--document_context: each sentence is read by itself here")
  # The labels are those of the training, or of its initial checkpoint.
  names = labels.choose(args.output_dir, checks.labels_file(args), None)
  config = checks.config(args)
  model = tagger(args, config, len(names), any_device=True)
  texts = TextConfig(args.tokenizer, args.max_seq_length, names)
  return ServedModel(model, Answers(texts))
