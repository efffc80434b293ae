"""The encoder of a run by its flags: configuration, vocabulary, checkpoint."""

import os
import re
import sys
from dataclasses import replace

from absl import logging

from cli import arguments, checks
from cli.arguments import Arguments
from data import labels, vocab, vocab_checks
from data.tokenization import validate_case_matches_checkpoint
from modeling.config import EXTENSIONS, SIDES, BertConfig
from storage import UserError, files, protobuf
from training import run_record

# Embedding tables may be padded to a multiple of this.
_PADDING = 128
_LAYER = re.compile(r"/encoder/layer_(\d+)/")
# {field of bert_config.json: (end of a variable's name, axis of that size)}
_SIZES = {
  "hidden_size": ("embeddings/word_embeddings", 1),
  "vocab_size": ("embeddings/word_embeddings", 0),
  "max_position_embeddings": ("embeddings/position_embeddings", 0),
  "type_vocab_size": ("embeddings/token_type_embeddings", 0),
  "intermediate_size": ("layer_0/intermediate/dense/kernel", 1),
}


def config(args: Arguments) -> BertConfig:
  """Reads --bert_config_file and applies the flags that override it."""
  changes = {
    name: getattr(args, name)
    for name in EXTENSIONS
    if getattr(args, name, None)  # not all programs have them all
  }
  result = replace(BertConfig.from_json(args.bert_config_file), **changes)
  if "max_seq_length" in args:
    result.check_length(args.max_seq_length)
  if args.vocab_file:
    tokens = vocab.load(args.vocab_file)
    needed = vocab.CLS, vocab.SEP, vocab.UNK
    vocab.check_tokens(tokens, needed, args.vocab_file)
    vocab.check_size(
      tokens, result.vocab_size, args.vocab_file, args.bert_config_file
    )
  return result


def checkpoint(args: Arguments) -> str | None:
  """Path of the checkpoint to start from; None to train from scratch."""
  return _own_checkpoint(args) or args.init_checkpoint


def _own_checkpoint(args):
  """Newest or best checkpoint in --output_dir, if there is one."""
  if "output_dir" not in args:
    return None
  return run_record.latest_checkpoint(
    run_record.best_or_latest(args.output_dir)
  )


def labels_file(args: Arguments) -> str | None:
  """Path of labels.txt of --init_checkpoint, if its head is restored."""
  path = args.init_checkpoint
  if not path or _own_checkpoint(args) or (args.do_train and args.new_head):
    return None
  return run_record.sibling_file(path, labels.FILE_NAME)


def check(args: Arguments, *same: str, texts: bool = True) -> None:
  """Checks the model's files, and that they and the flags fit each other.

  `same` are names of flags that must be as in the training in --output_dir;
  `texts` is False if the run reads no text, so that its case does not matter.
  Raises OSError if a file cannot be read or written, ValueError for no
  checkpoint to predict with, or other vocabulary, letter case, attention or
  `same`.
  """
  checks.file(args, "bert_config_file")
  checks.file(args, "vocab_file")
  for name in ("output_dir", "export_dir"):
    if getattr(args, name, None):
      checks.writable(args[name], name)
  if getattr(args, "teacher", None) and args.do_train:
    _check_teacher(args)
  network = config(args)
  trains = getattr(args, "do_train", False)
  if own := _own_checkpoint(args):
    entry = run_record.of_checkpoint(own)
    _check_program(args.output_dir, entry.get("program"))
    _check_sizes(args.bert_config_file, network, own)
    actual = vars(args) | {"attention": network.attention}
    if trains:
      same = ("task_name", *same)
    for name in ("attention", *same):
      _check_same(
        *(name, actual.get(name), entry["flags"].get(name)),
        f"the model in {args.output_dir}",
        "give this value, or another --output_dir",
      )
  elif args.init_checkpoint:
    if texts:
      _check_case(args, trains)
    _check_init_checkpoint(args, network)
  elif not trains:
    raise UserError(
      f"no checkpoint in --output_dir={args.output_dir} and no "
      "--init_checkpoint: train first, or name one"
    )
  if args.vocab_file:
    check_vocabulary(args, network.vocab_size)
  if texts:
    vocab_checks.warn_of_case(
      vocab.load(args.vocab_file), args.do_lower_case, args.vocab_file
    )


def _check_teacher(args):
  """Checks that --teacher is of this program and reads the same tokens."""
  teacher, program = args.teacher, os.path.basename(sys.argv[0])
  if os.path.realpath(teacher) == os.path.realpath(args.output_dir):
    raise UserError("--teacher is --output_dir: name another folder")
  entries = run_record.read(teacher)
  if not entries or f"{entries[-1].get('program')}.py" != program:
    raise UserError(
      f"--teacher={teacher} is no folder that {program} has trained in: name "
      "its --output_dir"
    )
  trained = arguments.from_record(teacher, entries[-1], {})
  for name in ("do_lower_case", "multi_label", "is_regression", "long_text"):
    if name in args:
      _check_same(
        *(name, args[name], trained[name]),
        f"--teacher={teacher}",
        "teacher and student need the same",
      )
  if vocab.load(args.vocab_file) != vocab.load(trained.vocab_file):
    raise UserError(
      f"--vocab_file={args.vocab_file} has other tokens than "
      f"{trained.vocab_file} of --teacher={teacher}: teacher and student need "
      "the same vocabulary"
    )
  network = BertConfig.from_json(trained.bert_config_file)
  network.check_length(args.max_seq_length)


def _check_program(output_dir, trained):
  """Raises ValueError if another program has trained in --output_dir."""
  program = os.path.basename(sys.argv[0]).removesuffix(".py")
  if program.startswith("run_") and trained not in (None, program):
    raise UserError(
      f"--output_dir={output_dir} is of {trained}.py: name another folder; to "
      f"start from its model, --init_checkpoint={output_dir}"
    )


def _check_same(name, value, trained, owner, remedy):
  """Raises ValueError if a flag is not as in a training; None is unknown."""
  if trained is not None and str(value).lower() != str(trained).lower():
    raise UserError(
      f"--{name}={value}, but {owner} was trained with --{name}={trained}: "
      f"{remedy}"
    )


def _check_sizes(config_file, network, prefix, may_be_deeper=False):
  """Raises ValueError if a checkpoint has a network of another size.

  With `may_be_deeper` it may have more layers, which are left out.
  """
  layers, sizes = 0, {}
  for name, shape in protobuf.checkpoint_shapes(f"{prefix}.index").items():
    if layer := _LAYER.search(name):
      layers = max(layers, int(layer[1]) + 1)
    for field, (end, axis) in _SIZES.items():
      if name.endswith(end) and len(shape) == 2:
        sizes[field] = shape[axis]
  if layers:
    sizes = {"num_hidden_layers": layers} | sizes
  expected = {field: getattr(network, field) for field in sizes}
  different = [field for field in sizes if sizes[field] != expected[field]]
  if not different:
    return
  trained, configured = (
    " and ".join(f"{field} {values[field]}" for field in different)
    for values in (sizes, expected)
  )
  message = (
    f"the checkpoint {prefix} has {trained}, but --bert_config_file="
    f"{config_file} has {configured}"
  )
  is_deeper = layers > network.num_hidden_layers
  if may_be_deeper and is_deeper and different == ["num_hidden_layers"]:
    logging.warning("%s: the upper layers are left out", message)
    return
  raise UserError(
    f"{message}: take the bert_config.json that came with the checkpoint"
  )


def _check_init_checkpoint(args, network):
  attention = network.attention
  paths, expected = [args.init_checkpoint], [attention]
  is_explicit = bool(args.attention)
  if attention == "shallow" and "," in args.init_checkpoint:
    paths, expected = args.init_checkpoint.split(","), SIDES
    is_explicit = False
  for path, attention in zip(paths, expected, strict=False):
    prefix = run_record.find_checkpoint(path)
    trains = getattr(args, "do_train", False)
    _check_sizes(args.bert_config_file, network, prefix, trains)
    trained = run_record.flag_of(path, "attention")
    if trained not in (None, attention) and not is_explicit:
      raise UserError(
        f"{path} was trained with --attention={trained}, the network here has "
        f"{attention}: give --attention={trained}, or --attention={attention} "
        "if the change is intended"
      )


def _check_case(args, trains):
  """Compares --do_lower_case with the training of --init_checkpoint."""
  path, lower_case = args.init_checkpoint, args.do_lower_case
  validate_case_matches_checkpoint(lower_case, path)
  entry = run_record.of_checkpoint(path)
  trained = entry["flags"].get("do_lower_case", lower_case)
  # Pre-training without a vocabulary reads records: there the flag is unused.
  if trained == lower_case or not entry["flags"].get("vocab_file"):
    return
  message = (
    f"--do_lower_case={lower_case}, but {path} was trained with "
    f"--do_lower_case={trained}: give this value"
  )
  if not trains:
    raise UserError(message)
  logging.warning("%s, unless texts and vocabulary are others", message)


def check_head(args: Arguments, name: str) -> None:
  """Raises ValueError if a flag is not as in the training of the head."""
  start, own = checkpoint(args), _own_checkpoint(args)
  if not start or (not own and args.do_train and args.new_head):
    return
  _check_same(
    *(name, args[name], run_record.flag_of(start, name)),
    f"the head of {start}",
    "give this value, or train a fresh head with --new_head in another "
    "--output_dir",
  )


def check_vocabulary(args: Arguments, vocab_size: int) -> None:
  """Raises ValueError if --vocab_file differs from that of the checkpoint."""
  start = checkpoint(args)
  if not start:
    return
  ids = vocab.load(args.vocab_file)
  saved = run_record.sibling_file(start, "vocab.txt") or run_record.path_of(
    run_record.of_checkpoint(start), "vocab_file"
  )
  if saved and files.exists(saved):
    vocab.check_same(ids, vocab.load(saved), args.vocab_file, saved)
  elif vocab_size - len(ids) >= _PADDING:
    logging.warning(
      "%s has %d lines, but the model of %s has %d ids: is it the vocab.txt "
      "that came with the model?",
      *(args.vocab_file, len(ids), start, vocab_size),
    )
