"""What is served of each program's model, from the program's flags alone.

That is a network, what takes raw text for it and gives named answers, and the
names of what it scores. --do_export writes it, predictor.py asks it. Settings
that a program and its export both need are read from flags here, once.
"""

from collections.abc import Sequence
from typing import NamedTuple

import keras
from absl import flags

from assembly import network
from data import vocab
from data.pretraining import next_token
from data.tasks import glue, own_task, squad_windows, tagging_input, text_task
from data.tokenization import validate_case_matches_checkpoint
from data.tokenization_ops import GraphTokenizer
from evaluation import squad as answers
from evaluation import squad_scores
from modeling import feature_based, models
from modeling.config import BertConfig
from modeling.layer_outputs import layer_outputs, mean
from serving.choices import Choices
from serving.classification import Classification
from serving.masks import Masks
from serving.questions import Questions
from serving.tagging import Tagging
from serving.vectors import Vectors
from training import export


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
    models.classifier(network.for_texts(FLAGS), task.num_outputs),
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
  return Served(models.span_labeler(network.for_texts(FLAGS)), task)


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
    tagger(FLAGS, network.for_texts(FLAGS), len(names), any_device=True),
    Tagging(_tokenizer(FLAGS), FLAGS.max_seq_length, names),
    names,
  )


def choices(FLAGS: flags.FlagValues) -> Served:
  """Beginnings and their endings to the right one: run_swag.py."""
  task = Choices(_tokenizer(FLAGS), FLAGS.max_seq_length)
  return Served(models.multiple_choice(network.for_texts(FLAGS)), task)


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
  return Served(
    models.pretrainer(network.for_texts(FLAGS), next_sentence=False), task
  )


def layer_indexes(text: str) -> list[int]:
  """The numbers in --layers of extract_features."""
  try:
    return [int(number) for number in text.split(",")]
  except ValueError:
    raise ValueError(
      f"--layers={text}: give numbers with commas between them, as in -1,-2"
    ) from None


def vectors(FLAGS: flags.FlagValues) -> Served:
  """Texts to the vectors of tokens and of texts: extract_features.py."""
  config = network.from_flags(FLAGS)
  pool = mean if FLAGS.pooling != "cls" else lambda values, mask: values[:, 0]
  return Served(
    layer_outputs(config, layer_indexes(FLAGS.layers)),
    Vectors(_tokenizer(FLAGS), FLAGS.max_seq_length, pool),
  )


# Those that train, and leave a run.json.
PROGRAMS = {
  "run_classifier": classification,
  "run_squad": questions,
  "run_ner": tagging,
  "run_swag": choices,
  "run_pretraining": masks,
}
