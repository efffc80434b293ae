"""Checkpoint that a program starts from, its labels and its vocabulary.

It is the newest or best one in --output_dir, else --init_checkpoint.
"""

import os

import tensorflow as tf
from absl import logging

from cli import encoder_config
from cli.arguments import Arguments
from data import labels, vocab, vocab_checks
from modeling.config import BertConfig
from storage import checkpoint_names
from training import checkpoint, run_folder

# Embedding tables may be padded to a multiple of this.
_PADDING = 128


def find(args: Arguments) -> str | None:
  """Path of the checkpoint to start from; None to train from scratch."""
  folder = getattr(args, "output_dir", None)
  if folder:
    newest = tf.train.latest_checkpoint(run_folder.best_or_latest(folder))
    if newest:
      return newest
  return args.init_checkpoint


def labels_file(args: Arguments) -> str | None:
  """Path of labels.txt of --init_checkpoint, if its head is restored."""
  path = args.init_checkpoint
  if not path or find(args) != path or (args.do_train and args.new_head):
    return None
  return _sibling_file(path, labels.FILE_NAME)


def _sibling_file(path, name):
  prefix = os.path.join(path, "") if tf.io.gfile.isdir(path) else path
  return checkpoint_names.sibling_file(prefix, name)


def network_for_texts(args: Arguments) -> BertConfig:
  """Configuration of an encoder for texts, checked against the checkpoint.

  Raises:
    ValueError: see encoder_config.for_texts and `check_vocabulary`.
  """
  config = encoder_config.for_texts(args)
  check_vocabulary(args, config.vocab_size)
  check_case(args)
  return config


def check_vocabulary(args: Arguments, vocab_size: int) -> None:
  """Checks that --vocab_file is the vocabulary of the checkpoint.

  Raises:
    ValueError: it differs from the checkpoint's vocab.txt, or the checkpoint
      has another vocab_size than the configuration.
  """
  path = args.vocab_file
  start = find(args)
  if not (path and start):
    return
  ids = vocab.load(path)
  if start == args.init_checkpoint:
    _check_rows(checkpoint.read(start), vocab_size, args.bert_config_file)
  saved = _sibling_file(start, "vocab.txt")
  if saved:
    vocab.check_same(ids, vocab.load(saved), path, saved)
  elif vocab_size - len(ids) >= _PADDING:
    logging.warning(
      "%s has %d lines, but the model of %s has %d ids: is it the vocab.txt "
      "that came with the model?",
      *(path, len(ids), start, vocab_size),
    )


def _check_rows(reader, vocab_size, config_file):
  for name, shape in reader.shapes.items():
    if name.endswith("embeddings/word_embeddings") and shape[0] != vocab_size:
      raise ValueError(
        f"{reader.prefix} has embeddings of {shape[0]} tokens, but vocab_size "
        f"in {config_file} is {vocab_size}: take the bert_config.json and the "
        "vocab.txt that came with the checkpoint"
      )


def check_case(args: Arguments) -> None:
  """Warns if --do_lower_case contradicts the tokens of --vocab_file."""
  path = args.vocab_file
  vocab_checks.warn_of_case(vocab.load(path), args.do_lower_case, path)
