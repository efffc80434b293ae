"""Reads and writes folders of the original, and checks converted models."""

import os
from functools import partial
from itertools import chain

import keras
import numpy as np
from absl import logging

from conversion import interchange
from conversion.interchange import BERT_CONFIG, VOCABULARY, CanonicalModel
from data import labels, tokenization, vocab
from modeling import models
from modeling.config import BertConfig, extensions, without_shape
from storage import UserError, files, setting, textfiles
from training import checkpoint, checkpoint_files

# Classifiers and taggers have the same variables, so the program decides.
_HEADS = {"run_classifier": "classification", "run_ner": "tagging"}


def read_config(prefix: str, path: str | None = None) -> dict | None:
  """Reads bert_config.json at `path`, or the checkpoint's; None if absent."""
  name = "bert_config_file"
  path = path or checkpoint_files.file_of(prefix, name, BERT_CONFIG)
  return textfiles.read_json(path) if path else None


def read(
  path: str, config_file: str | None = None, averaged: bool = False
) -> CanonicalModel:
  """Reads a checkpoint with its configuration, vocabulary and labels.

  Flags in run.json complete the configuration. With `averaged`, reads moving
  averages. Raises UserError if there are none, or the checkpoint is corrupt.
  """
  prefix = checkpoint_files.find_checkpoint(path)
  reader = checkpoint.Reader(prefix)
  entry = checkpoint_files.run_of(prefix)
  flags = entry["flags"]
  bert = CanonicalModel(prefix, config=read_config(prefix, config_file))
  if bert.config is not None:
    bert.config |= extensions(flags)
    trained = without_shape(entry.get("config") or {})
    for name, value in without_shape(bert.config).items():
      if trained.get(name, value) != value:
        raise UserError(
          f"the checkpoint {prefix} has {name} {trained[name]}, but its "
          f"configuration has {value}: take the training's bert_config.json"
        )
  find = partial(checkpoint_files.sibling_file, prefix)
  bert.vocabulary = checkpoint_files.file_of(prefix, "vocab_file", VOCABULARY)
  bert.mark = entry.get("vocabulary")
  if labels_file := find(labels.FILE_NAME):
    bert.labels = tuple(labels.read_file(labels_file))
  thresholds = {name: find(name) for name in labels.THRESHOLD_FILES}
  bert.thresholds = {k: path for k, path in thresholds.items() if path}
  bert.lower_case = flags.get("do_lower_case")
  bert.multi_label = flags.get("multi_label", False)
  bert.head = _HEADS.get(entry.get("program", ""))
  state = checkpoint.training_state(reader.shapes)
  average = checkpoint.AVERAGE
  if averaged and not any(name.endswith(average) for name in reader.shapes):
    raise UserError(f"{prefix} has no moving averages")
  flag = setting("use_moving_averages")
  for name in sorted(reader.shapes):  # a variable precedes its average
    if name == "global_step":
      bert.step = reader[name]
    elif name.endswith(average) and averaged:
      bert.values[name.removesuffix(average)] = reader[name]
    elif name.endswith(average):
      bert.skip(name, f"moving averages, which {flag} converts")
    elif name in state or name.startswith("run/"):
      bert.skip(name, "of the training's state")
    else:
      bert.values[name] = reader[name]
  return bert


def write(bert: CanonicalModel, folder: str) -> str:
  """Writes files like a released model's; returns the checkpoint's prefix.

  Raises ValueError, before writing, if a label cannot be a line of labels.txt.
  """
  if bert.labels:
    labels.save(bert.labels, folder)
  prefix = os.path.join(folder, interchange.CHECKPOINT)
  step = {} if bert.step is None else {"global_step": bert.step}
  checkpoint.write(prefix, bert.values | step)
  if bert.config is not None:
    interchange.write_json(os.path.join(folder, BERT_CONFIG), bert.config)
  copies = dict(bert.thresholds)
  if bert.vocabulary:
    copies[VOCABULARY] = bert.vocabulary
  for name, path in copies.items():
    text = vocab.read_text(path)  # also converts a tokenizer.json
    files.write_text(os.path.join(folder, name), text)
  # The folder may have files of an earlier model.
  written = {BERT_CONFIG: bert.config, labels.FILE_NAME: bert.labels} | copies
  optional = interchange.FILES[interchange.ORIGINAL][2:]
  files.remove_old(folder, *(x for x in optional if not written.get(x)))
  return prefix


def complete(
  bert: CanonicalModel,
  vocab_file: str | None = None,
  do_lower_case: bool | None = None,
  for_transformers: bool = False,
) -> None:
  """Checks a model's values, configuration, vocabulary and labels.

  `vocab_file` and `do_lower_case` replace the model's own. `for_transformers`
  adds checks for a Hugging Face folder. Raises UserError for a wrong part.
  """
  is_named = bert.labels and "output_bias" in bert.values
  if is_named and len(bert.labels) != bert.num_labels:
    raise UserError(
      f"{bert.origin} has {bert.num_labels} classes, but its labels.txt or "
      f"id2label names {len(bert.labels)}: correct or remove the names"
    )
  if wrong := [k for k, v in bert.values.items() if not np.isfinite(v).all()]:
    raise UserError(
      f"{bert.origin}: {len(wrong)} of {len(bert.values)} variables have NaN "
      f"or infinity ({', '.join(wrong[:3])}): take another checkpoint"
    )
  if bert.config is not None:
    try:
      bert.config = BertConfig.from_dict(bert.config).to_dict()
    except UserError as error:
      raise UserError(f"the configuration of {bert.origin}: {error}") from None
  if vocab_file and bert.vocabulary and not bert.mark:
    given = tokenization.open_tokenizer(vocab_file).vocab
    own = tokenization.open_tokenizer(bert.vocabulary).vocab
    vocab.check_same(given, own, vocab_file, bert.vocabulary)
  bert.vocabulary = vocab_file or bert.vocabulary
  if do_lower_case is not None:
    bert.lower_case = do_lower_case
  if for_transformers:  # with a configuration: see convert_checkpoint.py
    config = BertConfig.from_dict(bert.config)
    if config.attention != "bidirectional" or config.add_bilstm:
      raise UserError(
        f"{bert.origin} has attention in one direction or a BiLSTM, which "
        "transformers' BERT lacks"
      )
    # Others may have saved another dtype.
    bert.values = {k: v.astype(np.float32) for k, v in bert.values.items()}
  _check_vocabulary(bert, for_transformers)


def _check_vocabulary(bert, for_transformers):
  lower_case = bert.lower_case is not False
  if for_transformers:
    tokenization.validate_case_matches_checkpoint(
      lower_case, bert.origin, "input"
    )
  elif not lower_case:
    case = setting("do_lower_case", False)
    logging.info("the vocabulary is cased: programs need %s", case)
  if bert.multi_label and not for_transformers:
    logging.info("run_classifier.py needs %s", setting("multi_label", True))
  if not bert.vocabulary:
    flag = setting("vocab_file")
    logging.warning("%s has no vocabulary: %s gives one", bert.origin, flag)
    return
  tokenizer = tokenization.open_tokenizer(bert.vocabulary, lower_case)
  if bert.mark and not tokenizer.fits(bert.mark):
    raise UserError(
      f"{bert.vocabulary} is not the vocabulary with which {bert.origin} was "
      f"trained: give that file by {setting('vocab_file')}"
    )
  if bert.config:
    ids, size = tokenizer.vocab, bert.config["vocab_size"]
    vocab.check_size(ids, size, bert.vocabulary, f"the config of {bert.origin}")
  if for_transformers:  # transformers would add missing tokens
    tokenizer.check()
    tokenization.warn_of_case(tokenizer)


def check_variables(bert: CanonicalModel, head: str) -> None:
  """Checks that a model with a configuration has all variables of `head`."""
  if not bert.is_tied and "cls/predictions/output_bias" in bert.values:
    raise UserError(
      f"{bert.origin}: tie_word_embeddings is False, but the original's masked-"
      f"LM head has no table of its own: give {setting('head', 'encoder')}"
    )
  if bert.config is None:
    logging.warning(
      "%s has no bert_config.json: its variables are not checked", bert.origin
    )
    return
  make: dict = {
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
  """Assigns all variables of a model; UserError if values do not fit."""
  # Some Hugging Face classes have no pooler.
  needs_pooler = interchange.HEADS[head].pools and head != "encoder"
  for name in sorted(bert.values.keys() - {v.path for v in model.weights}):
    if name.startswith("bert/encoder/layer_"):
      raise UserError(f"{bert.origin}: its configuration has no {name}")
  for variable in model.weights:  # without Keras' random generators
    name, shape = variable.path, tuple(variable.shape)
    value = bert.values.get(name)
    if value is None and name.startswith("bert/pooler/") and not needs_pooler:
      value = np.zeros(shape, np.float32)
    if value is None:
      others = sorted([*bert.values, *chain(*bert.skipped.values())])
      raise UserError(
        f"{bert.origin}: no tensor gives {name}; it has "
        f"{', '.join(others[:3])}, ..."
      )
    if tuple(value.shape) != shape:
      remedy = f", or convert the encoder alone by {setting('head', 'encoder')}"
      raise UserError(
        f"{bert.origin}: {name} has shape {value.shape}, its configuration "
        f"says {shape}: correct it{'' if name.startswith('bert/') else remedy}"
      )
    variable.assign(value)


def check_values(bert: CanonicalModel, back: CanonicalModel) -> None:
  """Raises ValueError if `back`, read from the files, differs from `bert`."""

  def bits(model, name):
    value = model.values.get(name)
    return value is not None and (value.dtype, value.shape, value.tobytes())

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
