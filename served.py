"""What is served of each program's model, from the program's flags alone.

That is a network, what takes raw text for it and gives named answers, and the
names of what it scores. --do_export writes it, predictor.py asks it. What a
program needs for it and for its own work is here, too.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import keras
from absl import flags

from data import files, vocab
from data.pretraining import next_token
from data.tasks import glue, own_task, squad_windows, tagging_input, text_task
from data.tokenization import validate_case_matches_checkpoint
from data.tokenization_ops import GraphTokenizer
from evaluation import squad as answers
from evaluation import squad_scores
from modeling import feature_based, models
from modeling.config import BertConfig
from modeling.shallow import SIDES
from serving.choices import Choices
from serving.classification import Classification
from serving.masks import Masks
from serving.questions import Questions
from serving.tagging import Tagging
from training import export, precision, run, run_record
from training.checkpoints import Checkpoints


class Served(NamedTuple):
  """What is served of a model.

  Attributes:
    model: a fresh network, for any device.
    task: what goes in and comes out.
    labels: names of what the model scores, if they have names.
  """

  model: keras.Model
  task: export.Task
  labels: Sequence[str] | None = None

  @property
  def signatures(self) -> dict:
    """What takes raw text, as a SavedModel that was loaded has it."""
    return {"serving_default": export.from_text(self.model, self.task)}


def network(FLAGS: flags.FlagValues) -> BertConfig:
  """That of --bert_config_file, as other flags change it.

  --attention is then what the network has.

  Raises:
    ValueError: --init_checkpoint was trained to look elsewhere, and nobody says
      that this is meant; or its two are in the wrong order.
  """
  changes = {
    name: getattr(FLAGS, name)
    for name in ("attention", "add_bilstm")
    if getattr(FLAGS, name, None)  # not all programs have both
  }
  config = replace(BertConfig.from_json(FLAGS.bert_config_file), **changes)
  is_meant = "attention" in changes
  _check_attention(config, FLAGS.init_checkpoint or "", is_meant)
  FLAGS.attention = config.attention
  return config


def _check_attention(config, init_checkpoint, is_meant):
  paths, wanted = [init_checkpoint], [config.attention]
  if config.attention == "shallow" and "," in init_checkpoint:
    paths, wanted, is_meant = init_checkpoint.split(","), SIDES, False
  for path, attention in zip(paths, wanted, strict=False):
    before = run_record.flag_of(path, "attention") if path else None
    if before not in (None, attention) and not is_meant:
      raise ValueError(
        f"{path} was trained with --attention={before}, the network here has "
        f"{attention}: give --attention={before}, or say that this is meant "
        f"with --attention={attention}"
      )


def sizes(FLAGS: flags.FlagValues) -> BertConfig:
  """The network, for texts of --max_seq_length.

  Raises:
    ValueError: --max_seq_length or --do_lower_case does not fit the model; see
      `network`.
  """
  config = network(FLAGS)
  config.check_length(FLAGS.max_seq_length)
  validate_case_matches_checkpoint(FLAGS.do_lower_case, FLAGS.init_checkpoint)
  return config


def _tokenizer(FLAGS):
  return GraphTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)


def classification_task(FLAGS: flags.FlagValues) -> text_task.Task:
  """The task that run_classifier's --task_name names."""
  if FLAGS.task_name.lower() != own_task.NAME:
    task = glue.find(FLAGS.task_name)
    return glue.xnli(FLAGS.xnli_language) if task.name == "XNLI" else task
  task = own_task.task(
    FLAGS.data_dir,
    FLAGS.text_a_column,
    FLAGS.text_b_column,
    FLAGS.label_column,
    FLAGS.is_regression,
  )
  return own_task.with_labels(task, FLAGS.data_dir, FLAGS.output_dir)


def classification(FLAGS: flags.FlagValues) -> Served:
  """One or two texts to a label or a score: run_classifier.py."""
  task = classification_task(FLAGS)
  return Served(
    models.classifier(sizes(FLAGS), task.num_outputs),
    Classification(
      _tokenizer(FLAGS), FLAGS.max_seq_length, task.labels, task.has_pairs
    ),
    task.labels,
  )


def lengths(FLAGS: flags.FlagValues) -> squad_windows.Settings:
  """Of run_squad's windows and questions."""
  return squad_windows.Settings(
    FLAGS.max_seq_length, FLAGS.max_query_length, FLAGS.doc_stride
  )


def choice(FLAGS: flags.FlagValues) -> answers.Settings:
  """How run_squad chooses answers; an earlier prediction may have found it."""
  return answers.Settings(
    FLAGS.n_best_size,
    FLAGS.max_answer_length,
    FLAGS.version_2_with_negative,
    squad_scores.threshold(FLAGS.output_dir, FLAGS.null_score_diff_threshold),
  )


def questions(FLAGS: flags.FlagValues) -> Served:
  """Questions about contexts to answers: run_squad.py."""
  task = Questions(
    _tokenizer(FLAGS), lengths(FLAGS), choice(FLAGS), FLAGS.trim_padding
  )
  return Served(models.span_labeler(sizes(FLAGS)), task)


def columns(FLAGS: flags.FlagValues) -> tagging_input.Columns:
  """Where words and tags are in run_ner's files."""
  return tagging_input.Columns(FLAGS.word_column, FLAGS.tag_column)


def tags(FLAGS: flags.FlagValues) -> Sequence[str]:
  """Those of run_ner's model."""
  return tagging_input.tag_set(
    FLAGS.train_file, columns(FLAGS), FLAGS.output_dir
  )


def tagger(
  FLAGS: flags.FlagValues,
  config: BertConfig,
  num_tags: int,
  any_device: bool = False,
) -> keras.Model:
  """The network of run_ner; on the devices of the run, or on any."""
  one_hot = FLAGS.use_tpu and not any_device
  if not FLAGS.feature_based:
    return models.tagger(config, num_tags, one_hot)
  what = FLAGS.feature_layers, FLAGS.lstm_units
  return feature_based.tagger(config, num_tags, *what, one_hot, any_device)


def tagging(FLAGS: flags.FlagValues) -> Served:
  """Sentences to the tags of their words: run_ner.py."""
  names = tags(FLAGS)
  return Served(
    tagger(FLAGS, sizes(FLAGS), len(names), any_device=True),
    Tagging(_tokenizer(FLAGS), FLAGS.max_seq_length, names),
    names,
  )


def choices(FLAGS: flags.FlagValues) -> Served:
  """Beginnings and their endings to the right one: run_swag.py."""
  task = Choices(_tokenizer(FLAGS), FLAGS.max_seq_length)
  return Served(models.multiple_choice(sizes(FLAGS)), task)


def check_masks(FLAGS: flags.FlagValues) -> None:
  """Raises ValueError if a model of run_pretraining cannot fill masks."""
  if not FLAGS.vocab_file:
    raise ValueError("--do_export needs --vocab_file")
  vocab.require(vocab.load(FLAGS.vocab_file), name=FLAGS.vocab_file)
  check_objective(FLAGS.objective)
  validate_case_matches_checkpoint(FLAGS.do_lower_case, FLAGS.init_checkpoint)


def check_objective(objective: str | None) -> None:
  """Raises ValueError if a model that was trained so cannot fill masks."""
  if objective in next_token.DIRECTIONS:
    raise ValueError(
      f"a model of --objective={objective} cannot fill masks: take one "
      "that was trained with mlm_nsp or mlm"
    )


def masks(FLAGS: flags.FlagValues) -> Served:
  """Texts with [MASK] in them to words for it: run_pretraining.py.

  The next-sentence head is left out.
  """
  check_masks(FLAGS)
  task = Masks(_tokenizer(FLAGS), FLAGS.max_seq_length, FLAGS.export_top_k)
  return Served(models.pretrainer(sizes(FLAGS), next_sentence=False), task)


PROGRAMS = {
  "run_classifier": classification,
  "run_squad": questions,
  "run_ner": tagging,
  "run_swag": choices,
  "run_pretraining": masks,
}


def from_output_dir(folder: str, **changes) -> Served:
  """What --do_export would export of what a program has trained.

  Args:
    folder: the program's --output_dir.
    changes: flags that are to have other values than they had in training.

  Raises:
    FileNotFoundError: a file that the flags name is not there any more.
    ValueError: nothing of a known program was trained there.
  """
  starts = run_record.read(folder)
  if not starts:
    raise ValueError(
      f"no SavedModel and no {run_record.NAME} in {folder}: name a folder that "
      "--do_export wrote, or one that a program has trained in"
    )
  program = starts[-1].get("program")
  if program not in PROGRAMS:
    raise ValueError(
      f"{folder} was trained by {program or 'an unknown program'}, not by one "
      f"of {', '.join(PROGRAMS)}: name what its --do_export writes"
    )
  FLAGS = _flags_of(folder, starts[-1], changes)
  before = keras.config.dtype_policy()
  precision.set_policy(FLAGS.dtype, is_trained=False)
  try:
    found = PROGRAMS[program](FLAGS)
  finally:
    keras.config.set_dtype_policy(before)
  run.load(FLAGS, found.model, Checkpoints(folder))
  return found


def _flags_of(folder, start, changes):
  """The flags of a start of a run, for what needs the trained model only."""
  values = start["flags"]
  unknown = changes.keys() - values.keys()
  if unknown:
    raise ValueError(f"{start['program']} has no flag {min(unknown)}")
  for name in ("bert_config_file", "vocab_file"):
    if name in changes:
      continue
    path = values[name]
    if path and "://" not in path:
      path = os.path.join(start["directory"], path)
    if not path or not files.exists(path):
      raise FileNotFoundError(
        f"{folder} was trained with --{name}={path}, which is not there: say "
        f"where it is, as in Predictor({folder!r}, {name}=...)"
      )
    changes = changes | {name: path}
  gone = dict.fromkeys(("init_checkpoint", "data_dir", "train_file"))
  young = {"attention": None, "add_bilstm": False}  # not in every run.json
  given = young | values | gone | changes
  return SimpleNamespace(**given | {"output_dir": folder})
