"""Reads a model in any format, and checks a conversion."""

from functools import partial
from itertools import chain

import keras
import numpy as np
from absl import logging

from conversion import (
  hugging_face,
  interchange,
  keras_hub,
  model_garden,
  original,
  tf_hub,
)
from conversion.interchange import CanonicalModel
from data import vocab, vocab_checks
from data.tokenization import open_tokenizer, validate_case_matches_checkpoint
from modeling import models
from modeling.config import BertConfig
from storage import UserError, setting
from training import checkpoint_files


def read_any(
  path: str, bert_config_file: str | None, use_moving_averages: bool
) -> tuple[CanonicalModel, str]:
  """Reads a model; returns the model and the format's name."""
  averages = {"use_moving_averages": use_moving_averages}
  kind = interchange.format_of_folder(path)
  if kind == interchange.TF_HUB:
    _refuse(path, averages)
    return tf_hub.read(path, bert_config_file), kind
  if kind:
    _refuse(path, averages | {"bert_config_file": bert_config_file})
    reader = hugging_face if kind == interchange.HUGGING_FACE else keras_hub
    return reader.read(path), kind
  prefix = checkpoint_files.find_checkpoint(path)
  if interchange.is_object_based(prefix):
    _refuse(path, averages)
    return model_garden.read(prefix, bert_config_file), interchange.MODEL_GARDEN
  bert = original.read(prefix, bert_config_file, use_moving_averages)
  return bert, interchange.ORIGINAL


def _refuse(path, options):
  for name, value in options.items():
    if value:
      raise UserError(
        f"{setting(name)} does not go with the format of "
        f"{setting('input', path)}"
      )


def complete(
  bert: CanonicalModel,
  vocab_file: str | None,
  do_lower_case: bool | None,
  for_transformers: bool,
) -> None:
  """Checks a model's configuration, vocabulary and labels.

  `vocab_file` and `do_lower_case`, unless None, replace the model's own values.
  `for_transformers` adds the checks for writing a Hugging Face folder. Raises
  ValueError if a part is missing, or belongs to another model.
  """
  has_classes = bert.labels and "output_bias" in bert.values
  if has_classes and len(bert.labels) != bert.num_labels:
    raise UserError(
      f"{bert.origin} has {bert.num_labels} classes, but its labels.txt or "
      f"id2label names {len(bert.labels)}: correct or remove the names"
    )
  numbers = {k: v for k, v in bert.values.items() if v.dtype != object}
  if wrong := [k for k, v in numbers.items() if not np.isfinite(v).all()]:
    raise UserError(
      f"{bert.origin}: {len(wrong)} of {len(bert.values)} variables have NaN "
      f"or infinity ({', '.join(wrong[:3])}): take another checkpoint"
    )
  if bert.config is not None:
    bert.config = BertConfig.from_dict(bert.config).to_dict()
  if for_transformers:
    _check_architecture(bert)
  bert.vocabulary = vocab_file or bert.vocabulary
  if do_lower_case is not None:
    bert.lower_case = do_lower_case
  _check_vocabulary(bert, for_transformers)
  lower_case = bert.lower_case is not False
  if for_transformers:
    validate_case_matches_checkpoint(lower_case, bert.origin, "input")
  elif not lower_case:
    case = setting("do_lower_case", False)
    logging.info("its vocabulary is cased: programs need %s", case)


def _check_architecture(bert):
  attention = BertConfig.from_dict(bert.config).attention
  has_lstm = any(name.startswith("bert/bilstm/") for name in bert.values)
  if attention != "bidirectional" or has_lstm:
    part = "add_bilstm" if has_lstm else f"attention={attention}"
    raise UserError(f"{bert.origin}: transformers' BERT has no {setting(part)}")


def _check_vocabulary(bert, for_transformers):
  if not bert.vocabulary:
    flag = setting("vocab_file")
    logging.warning("%s has no vocabulary: %s names it", bert.origin, flag)
  if not bert.vocabulary or not bert.config:
    return
  tokenizer = open_tokenizer(bert.vocabulary, bert.lower_case is not False)
  ids = tokenizer.vocab
  number, size = 1 + max(ids.values()), bert.config["vocab_size"]
  vocab.check_size(ids, size, bert.vocabulary, f"the config of {bert.origin}")
  if for_transformers:  # transformers would add missing tokens
    tokenizer.check()
    vocab_checks.warn_of_case(tokenizer)
  if number < size:
    logging.warning(
      "%s has %d lines, vocab_size is %d", bert.vocabulary, number, size
    )


def check_variables(bert: CanonicalModel, head: str) -> None:
  """Checks that a model with a configuration has all variables of `head`."""
  if bert.config is None:
    logging.warning(
      "%s has no bert_config.json: its variables are not checked", bert.origin
    )
    return
  make = {
    "encoder": models.encoder,
    "pretraining": models.pretrainer,
    "masked_lm": partial(models.pretrainer, next_sentence=False),
    "question_answering": models.span_labeler,
    "multiple_choice": models.multiple_choice,
    "classification": lambda c: models.classifier(c, bert.num_labels),
    "tagging": lambda c: models.tagger(c, bert.num_labels),
  }
  assign(make[head](BertConfig.from_dict(bert.config)), bert, head)


def assign(model: keras.Model, bert: CanonicalModel, head: str) -> None:
  """Assigns all variables of `model`; raises ValueError if one is missing."""
  # Some Hugging Face classes have no pooler.
  needs_pooler = interchange.HEADS[head].pools and head != "encoder"
  for name in sorted(bert.values.keys() - {v.path for v in model.variables}):
    if name.startswith("bert/encoder/layer_"):
      raise UserError(f"{bert.origin}: its configuration has no {name}")
  for variable in model.variables:
    name, shape = variable.path, tuple(variable.shape)
    value = bert.values.get(name)
    if value is None and name.startswith("bert/pooler/") and not needs_pooler:
      value = keras.ops.zeros_like(variable)
    if value is None:
      others = [*bert.values, *chain(*bert.skipped.values())]
      raise UserError(
        f"{bert.origin}: no tensor gives {name}; it has "
        f"{', '.join(sorted(others)[:3])}, ..."
      )
    if tuple(value.shape) != shape:
      remedy = f"; {setting('head', 'encoder')} converts the encoder alone"
      raise UserError(
        f"{bert.origin}: {name} has shape {value.shape}, its configuration "
        f"says {shape}{'' if name.startswith('bert/') else remedy}"
      )
    variable.assign(value)


def check_values(bert: CanonicalModel, back: CanonicalModel) -> None:
  """Raises ValueError if `back`, as read from disk, differs from `bert`."""

  def bits(model, name):
    if name not in model.values:
      return None
    value = model.values[name]
    return value.dtype, value.shape, value.tobytes()

  names = sorted(bert.values.keys() | back.values.keys())
  wrong = [name for name in names if bits(bert, name) != bits(back, name)]
  config = bert.config or {}
  wrong += [key for key in config if back.config[key] != config[key]]
  if wrong:
    raise ValueError(
      f"{bert.origin} was not written faithfully to {back.origin}: "
      f"{', '.join(wrong[:3])}"
    )
  logging.info("read back: %d variables with the same bits", len(bert.values))
