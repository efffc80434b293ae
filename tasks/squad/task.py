"""run_squad.py: data, evaluation, predictions, export."""

import json
import os

import keras
from absl import logging

from data import features, labels, vocab_checks
from data.records import RecordDataset
from modeling import losses, models
from modeling.config import BertConfig
from runs import checks, model_files
from runs.devices import length_multiple
from runs.fine_tune import Task
from serving.answers import TextConfig
from serving.export import ServedModel
from serving.run_page import Evaluation, Judged
from storage import UserError, files, processes, tfrecord
from tasks.squad import answers, metrics, records
from tasks.squad import examples as squad_examples
from tasks.squad.answers import Answers, Predictions, position
from tasks.squad.examples import WORD
from tasks.squad.settings import Settings
from training import checkpoint_files, loop, report


def null_threshold(settings: Settings) -> float:
  """Null threshold of the flag, or else of an earlier run, or 0."""
  given = settings.null_score_diff_threshold
  if given is not None or not settings.version_2_with_negative:
    return given or 0.0
  path = settings.threshold_file(labels.NULL_THRESHOLD)
  start = checks.checkpoint(settings)
  if start and start == settings.init_checkpoint:
    name = os.path.basename(path)
    path = checkpoint_files.sibling_file(start, name) or path
  if not files.exists(path):
    return 0.0
  try:
    saved = float(files.read_text(path).strip("\ufeff \r\n"))
  except ValueError:
    text = f"{path} must be a number, as in -2.5: correct it, or remove it"
    raise UserError(text) from None
  logging.info("null threshold %s, from %s", saved, path)
  return saved


class Squad(Task[Settings]):
  """Questions about paragraphs; --do_predict answers the dev set.

  The rows of a dev set are windows. A training set has only records.
  """

  unit = "windows"
  predicted = "dev"

  @property
  def metric(self) -> str:
    return "best_f1" if self.settings.version_2_with_negative else "f1"

  def make_model(self, config: BertConfig) -> keras.Model:
    """Makes a span labeler, or an ensemble of K models: outputs [B, T, K]."""
    number = self.settings.ensemble
    parts = [models.span_labeler(config) for _ in range(number)]
    return models.ensemble(parts, models.stack)

  def objective(self) -> losses.Objective:
    return losses.span()

  def num_examples(self, records: RecordDataset) -> int:
    return len(records.examples)

  def convert(self, split: str) -> RecordDataset:
    settings, questions = self.settings, self.examples[split]
    is_training = split == "train"
    if is_training:
      questions = squad_examples.training_order(questions)
    file = settings.needed("train_file" if is_training else "predict_file")
    tokenizer = settings.tokenizer
    vocab_checks.warn_of_examples(
      lambda x: (x.question, " ".join(x.doc_tokens)), questions, tokenizer, file
    )
    f1_unit = None if is_training else settings.f1_unit
    metrics.warn_of_words(file, questions, f1_unit)
    questions = questions[: settings.max_examples]
    config = settings.windows()
    made = records.make_windows(
      questions, tokenizer, config, settings.num_workers
    )
    # A training streams the windows to the file, and needs only the records.
    windows = [] if is_training else [*made]
    path = self.records_file(split)
    schema = features.squad(config.max_seq_length, is_training)
    rows = records.rows(made if is_training else windows, schema, tokenizer.pad)
    tfrecord.save(path, schema, rows)
    multiple = length_multiple(settings, config.max_seq_length, split)
    multiple *= settings.dynamic_padding
    return RecordDataset(windows, path, schema, multiple, examples=questions)

  def answer(self, model: keras.Model, dataset: RecordDataset) -> Predictions:
    settings = self.settings
    config = settings.decoding(null_threshold(settings))  # first: may raise
    logits: list[answers.Logits] = []
    if dataset.rows:
      outputs = loop.outputs(model, dataset, settings.predict_batch_size)
      pairs = outputs["start_logits"], outputs["end_logits"]
      logits = [*zip(*pairs, strict=True)]
    if settings.dynamic_padding:  # the logits of padding may be undefined
      rows = zip(dataset.rows, logits, strict=True)
      logits = [(s[: len(w.ids)], e[: len(w.ids)]) for w, (s, e) in rows]
    parts = dataset.examples, dataset.rows, logits
    return answers.decode(*parts, settings.tokenizer, config)

  def score(
    self, dataset: RecordDataset, predictions: Predictions
  ) -> Evaluation:
    """Writes and returns scores. Without answers: none, or 0 in a dry run."""
    settings, questions = self.settings, dataset.examples
    rules = settings.version_2_with_negative, settings.f1_unit
    if {*predictions.answers.values()} <= {"", "empty"}:
      logging.warning(
        "the model answers none of %d questions: train longer, with another "
        "--learning_rate or --seed, or check --init_checkpoint",
        len(predictions.answers),
      )
    folder, name = settings.output_dir, "squad_scores.json"
    if not metrics.can_score(questions, rules[0]):
      logging.info("no scores: some questions lack answers; %s", metrics.REMEDY)
      if processes.is_chief():  # an earlier run may have had scores
        files.remove_old(folder, name)
      scores = {self.metric: 0.0} if settings.evaluates_while_training else {}
      return Evaluation(scores)
    scores = metrics.score(questions, predictions, *rules)
    if processes.is_chief():
      text = f"{json.dumps(scores, indent=2)}\n"
      files.write_text(os.path.join(folder, name), text)
    return Evaluation(scores, self._judged(questions, predictions, *rules))

  def _judged(self, questions, predictions, version_2, unit):
    # Predictions have only the last question of a repeated id.
    for question in {one.qas_id: one for one in questions}.values():
      truths = question.answer_texts
      context = " ".join(question.doc_tokens)
      text = predictions.answers[question.qas_id]
      entries = predictions.nbest[question.qas_id]
      number = [entry["text"] for entry in entries].index(text)
      span = predictions.spans[question.qas_id][number]
      start, end = position(text, span, [*WORD.finditer(context)])
      probability = entries[number]["probability"]
      alone = Predictions(answers={question.qas_id: text})
      scores = metrics.score([question], alone, version_2, unit)
      answer = {"answer": text, "start": start, "end": end}
      names = ["answer" if known else "no answer" for known in (truths, text)]
      yield Judged(
        {"question": question.question, "context": context},
        answer | {"probability": probability},
        label=truths[0] if truths else "",
        prediction=text,
        is_right=scores.get("exact_match", scores.get("exact")) == 100,
        probability=probability,
        pairs=[(names[0], names[1])] if version_2 else (),
      )

  def evaluate(self, model: keras.Model, records: RecordDataset) -> Evaluation:
    """Computes scores; saves the threshold, unless an earlier model is best."""
    scores = self.score(records, self.answer(model, records))
    if self.is_best(scores.get("best_f1", 0.0)) and processes.is_chief():
      self._save_threshold(scores)
    return scores

  def _save_threshold(self, scores):
    """Writes the null threshold that gives the best F1, if `scores` has one."""
    if "best_f1_thresh" in scores:
      path = self.settings.threshold_file(labels.NULL_THRESHOLD)
      files.write_text(path, f"{scores['best_f1_thresh']}\n")

  def predict(
    self, model: keras.Model, split: str, records: RecordDataset, step: int
  ) -> Evaluation:
    """Writes answers and, if the file has right ones, scores and threshold."""
    settings, predictions = self.settings, self.answer(model, records)
    metrics.write_predictions(predictions, settings.output_dir)
    scores = self.score(records, predictions)
    if scores:
      report.write_evaluation(settings.output_dir, scores, step)
    self._save_threshold(scores)
    return scores

  @staticmethod
  def served_model(settings: Settings) -> ServedModel:
    texts = TextConfig(settings.tokenizer, settings.max_seq_length)
    windows = vars(settings.windows())
    rules = vars(settings.decoding(null_threshold(settings)))
    answers = Answers(texts, windows, rules, settings.dynamic_padding)
    model = Squad(settings, {}).make_model(model_files.config(settings))
    return ServedModel(model, answers)


served_model = Squad.served_model
