"""run_ner.py: data, evaluation, predictions, export."""

import keras
import numpy as np

from data import labels, vocab_checks
from data.features import TOKENS
from data.records import RecordDataset
from data.write_records import log_lengths
from modeling import losses, models
from modeling.config import BertConfig
from runs import checks, model_files
from runs.devices import length_multiple
from runs.fine_tune import Task
from serving.answers import TextConfig, softmax
from serving.export import ServedModel
from serving.run_page import Evaluation, Judged
from storage import Progress, processes, tfrecord
from tasks.ner import metrics
from tasks.ner.answers import Answers, split_words
from tasks.ner.records import TagRecordBuilder, TagWindow
from tasks.ner.schemes import recognize
from tasks.ner.tagging import Settings
from training import loop


class Ner(Task[Settings]):
  """Tags the words of sentences; `labels` are the tags, rows are TagWindows."""

  unit = "records"
  has_table = True  # eval_predictions.tsv, with a row for each word

  @property
  def metric(self) -> str:
    return "eval_f1" if recognize(self.labels).name else "eval_accuracy"

  def make_model(
    self, config: BertConfig, any_device: bool = False
  ) -> keras.Model:
    """Makes BERT with a tag head, or an LSTM on a frozen BERT."""
    settings, num_tags = self.settings, len(self.labels)
    options = settings.feature_layers, settings.lstm_units, any_device
    parts = [
      models.feature_based_tagger(config, num_tags, *options)
      if settings.feature_based
      else models.tagger(config, num_tags)
      for _ in range(settings.ensemble)
    ]
    return models.ensemble(parts, models.mean_probs)

  def objective(self) -> losses.Objective:
    return losses.tagging()

  def convert(self, split: str) -> RecordDataset:
    settings, tokenizer = self.settings, self.settings.tokenizer
    file, length = settings[f"{split}_file"], settings.max_seq_length
    sentences = self.examples[split]
    vocab_checks.warn_of_examples(
      lambda sentence: (" ".join(sentence.words),), sentences, tokenizer, file
    )
    sentences = sentences[: settings.max_examples]
    build = TagRecordBuilder(
      tokenizer, length, self.labels, settings.document_context
    )
    progress = Progress("cut", len(sentences), "sentences")
    windows: list[TagWindow] = []

    def rows():
      """Yields rows for the file; appends each row's window to `windows`."""
      for row, window in build(sentences):
        progress.add(window.word == 0)
        windows.append(window)
        yield row

    path = self.records_file(split)
    tfrecord.save(path, build.schema, rows())
    progress.say()
    log_lengths(file, build.lengths, length, "they are cut into parts")
    multiple = length_multiple(settings, length, split)
    values = windows, path, build.schema, multiple, sentences
    fields = (*TOKENS, "label_ids")
    return RecordDataset(*values, lengths=build.lengths, token_fields=fields)

  def evaluate(self, model: keras.Model, records: RecordDataset) -> Evaluation:
    """Scores entities and words; with --do_eval, also writes predictions."""
    settings, sentences = self.settings, records.examples
    logits = word_logits(model, records, settings.eval_batch_size)
    ids = {tag: i for i, tag in enumerate(self.labels)}
    label_ids = [ids[tag] for s in sentences for tag in s.tags or ()]
    batch = {"label_ids": np.array(label_ids)}
    terms = self.objective().losses({"logits": logits}, batch)
    if settings.do_eval and processes.is_chief():
      metrics.write_predictions(
        settings.output_dir, "eval", logits, self.labels, sentences
      )
    scores = metrics.score(logits, self.labels, sentences)
    results = {"eval_loss": np.mean(terms["word_loss"])}
    results["eval_accuracy"] = scores.accuracy
    if scores.of_entities:
      for name in ("precision", "recall", "f1"):
        results[f"eval_{name}"] = getattr(scores.overall, name)
    return Evaluation(results, self._judged(sentences, logits))

  def _judged(self, sentences, logits):
    """Yields the sentences with their tags and the model's answers.

    `logits`: [words of all sentences, tags].
    """
    settings = self.settings
    texts = TextConfig(settings.tokenizer, settings.max_seq_length, self.labels)
    answers, first = Answers(texts), 0
    for sentence in sentences:
      tags, words = sentence.tags or [], sentence.words
      values, first = logits[first:][: len(words)], first + len(words)
      answer = answers.decode_words(*split_words(words), values)
      yield Judged(
        {"tokens": words},
        answer,
        " ".join(tags),
        " ".join(answer["tags"]),
        is_right=tags == answer["tags"],
        probability=softmax(values).max(-1).min(),
        pairs=[*zip(tags, answer["tags"], strict=True)],
      )

  def predict(
    self, model: keras.Model, split: str, records: RecordDataset, step: int
  ) -> None:
    """Writes the predicted tags of a file; logs scores if it has tags."""
    settings, sentences = self.settings, records.examples
    logits = word_logits(model, records, settings.predict_batch_size)
    metrics.write_predictions(
      settings.output_dir, split, logits, self.labels, sentences
    )
    if sentences[0].tags is not None:
      metrics.score(logits, self.labels, sentences)

  @staticmethod
  def served_model(settings: Settings) -> ServedModel:
    # labels.txt of the training, or of --init_checkpoint.
    start = checks.labels_file(settings)
    tags = labels.choose(settings.output_dir, start, None)
    ner, config = Ner(settings, {}, tags), model_files.config(settings)
    texts = TextConfig(settings.tokenizer, settings.max_seq_length, tags)
    model = ner.make_model(config, any_device=True)
    return ServedModel(model, Answers(texts))


served_model = Ner.served_model


def word_logits(
  model: keras.Model, dataset: RecordDataset, batch_size: int
) -> np.ndarray:
  """Computes the logits of the words of a file: [words, tags]."""
  windows, logits = dataset.rows, {}
  progress = Progress("read", len(windows), "examples")
  for batch in progress.follow(dataset.eval_batches(batch_size)):
    outputs = loop.predict(model, [batch])
    for row, values in zip(outputs["position"], outputs["logits"], strict=True):
      if row < len(windows):  # otherwise it is padding
        logits[row] = values[windows[row].positions]
  return np.concatenate([logits[row] for row in range(len(windows))])
