"""Checks settings, and compares settings with the model of a checkpoint."""

import os
import re
from collections.abc import Iterable
from dataclasses import replace

from absl import logging

from cli import file_checks
from data import labels, vocab, vocab_checks
from data.tokenization import open_tokenizer, validate_case_matches_checkpoint
from modeling.config import SIDES, BertConfig, extensions
from runs import contradictions, model_files
from runs.record import from_record
from runs.settings import Network, Packing, Tokens, TrainedModel, Training
from runs.task_settings import FineTuning
from storage import UserError, files
from training import checkpoint_files, run_json

_WORDS = "bert/embeddings/word_embeddings"
_LAYER = re.compile(r"/encoder/layer_(\d+)/")
# {field of bert_config.json: (end of a variable's name, axis of that size)}
_SIZES = {
  "hidden_size": ("embeddings/word_embeddings", 1),
  "vocab_size": ("embeddings/word_embeddings", 0),
  "max_position_embeddings": ("embeddings/position_embeddings", 0),
  "type_vocab_size": ("embeddings/token_type_embeddings", 0),
  "intermediate_size": ("layer_0/intermediate/dense/kernel", 1),
}


def config(settings: Network) -> BertConfig:
  """Reads --bert_config_file and applies the flags that override fields.

  Raises OSError if a file cannot be read, ValueError if the configuration does
  not fit --vocab_file or --max_seq_length.
  """
  values = settings.to_dict()  # some programs lack some of the flags
  result = BertConfig.from_json(settings.bert_config_file)
  result = replace(result, **extensions(values))
  if length := values.get("max_seq_length"):
    result.check_length(length)
  if isinstance(settings, Tokens) and (path := settings.vocab_file):
    settings.tokenizer.check("cls", "sep", "unknown")
    tokens = settings.tokenizer.vocab
    vocab.check_size(tokens, result.vocab_size, path, settings.bert_config_file)
  return result


def checkpoint(settings: Training) -> str | None:
  """Path of the checkpoint to start from; None to train from scratch."""
  return (
    checkpoint_files.choose_checkpoint(settings.output_dir)
    or settings.init_checkpoint
  )


def labels_file(settings: FineTuning) -> str | None:
  """Path of labels.txt of --init_checkpoint, if the run restores the head."""
  path = settings.init_checkpoint
  own = checkpoint_files.choose_checkpoint(settings.output_dir)
  if not path or own or (settings.do_train and settings.new_head):
    return None
  return checkpoint_files.sibling_file(path, labels.FILE_NAME)


def check(settings: TrainedModel, network: BertConfig) -> None:
  """Checks that flags fit the model in --init_checkpoint, to predict with.

  `network` is read from --bert_config_file. Raises ValueError for another size,
  vocabulary, letter case or attention.
  """
  _check_init_checkpoint(settings, network, trains=False)
  vocab_checks.warn_of_case(settings.tokenizer)


def check_run(settings: Training, network: BertConfig, *same: str) -> None:
  """Checks that flags fit the model in --output_dir or --init_checkpoint.

  The flags in `same` must equal the flags of the training in --output_dir.
  Without --vocab_file a run reads no text, and letter case does not matter.
  Raises ValueError like `check`, OSError for a read-only folder.
  """
  file_checks.check_writable(settings.output_dir, "output_dir")
  if own := checkpoint_files.choose_checkpoint(settings.output_dir):
    entry = checkpoint_files.run_of(own)
    if (trained := entry.get("program")) not in (None, settings.program):
      raise UserError(
        f"--output_dir={settings.output_dir} is of {trained}.py: name another "
        "folder; to start from its model, "
        f"--init_checkpoint={settings.output_dir}"
      )
    _check_sizes(settings.bert_config_file, network, own)
    actual = settings.to_dict() | {"attention": network.attention}
    if settings.do_train:
      same = ("task_name", *same)
    owner = f"the model in {settings.output_dir}"
    remedy = "give the latter, or another --output_dir"
    for name in ("attention", *same):
      trained = entry["flags"].get(name)
      _check_same(name, actual.get(name), trained, owner, remedy)
  elif settings.init_checkpoint:
    _check_init_checkpoint(settings, network, settings.do_train)
  elif not settings.do_train:
    raise UserError(
      f"no checkpoint in --output_dir={settings.output_dir} and no "
      "--init_checkpoint: train first, or name one"
    )
  if settings.vocab_file:
    check_vocabulary(settings, network.vocab_size, own)
    vocab_checks.warn_of_case(settings.tokenizer)
  if isinstance(settings, Packing):
    contradictions.check_packing(settings, network)


def check_fine_tuning(
  settings: FineTuning, *same: str, of_teacher: Iterable[str] = ()
) -> BertConfig:
  """Checks flags of fine-tuning; see `check_run`. Returns the configuration.

  The flags in `of_teacher` must equal the flags of the training of --teacher.
  """
  contradictions.check_fine_tuning(settings)
  network = config(settings)
  settings.frozen_layers(network)
  if settings.teacher and settings.do_train:
    _check_teacher(settings, of_teacher)
  check_run(settings, network, "add_bilstm", "do_lower_case", *same)
  return network


def _check_teacher(settings: FineTuning, same):
  """Checks that this program trained --teacher, and on the same tokens."""
  teacher = settings.needed("teacher")
  if os.path.realpath(teacher) == os.path.realpath(settings.output_dir):
    raise UserError("--teacher is --output_dir: name another folder")
  entries = run_json.read(teacher)
  if not entries or entries[-1].get("program") != settings.program:
    raise UserError(
      f"--teacher={teacher} is no --output_dir of {settings.program}.py"
    )
  trained = from_record(type(settings), teacher, entries[-1], {})
  owner = f"--teacher={teacher}"
  remedy = "teacher and student need the same"
  for name in ("do_lower_case", *same):
    value, expected = settings[name], trained[name]
    _check_same(name, value, expected, owner, remedy)
  if settings.tokenizer.vocab != trained.tokenizer.vocab:
    raise UserError(
      f"--vocab_file={settings.vocab_file} has other tokens than "
      f"{trained.vocab_file} of --teacher={teacher}, which needs the same"
    )
  network = BertConfig.from_json(trained.bert_config_file)
  network.check_length(settings.max_seq_length)


def _check_same(name, value, trained, owner, remedy):
  """Raises ValueError if a flag differs from a training; None is unknown."""
  if trained is not None and str(value).lower() != str(trained).lower():
    raise UserError(
      f"--{name}={value}, but {owner} was trained with --{name}={trained}: "
      f"{remedy}"
    )


def _check_sizes(config_file, network, prefix, may_be_deeper=False):
  """Raises ValueError if a checkpoint has a network of another size.

  With `may_be_deeper` the checkpoint may have more layers, which are left out.
  """
  layers = 0
  sizes = {}
  shapes = checkpoint_files.shapes(prefix)
  for name, shape in shapes.items():
    if layer := _LAYER.search(name):
      layers = max(layers, int(layer[1]) + 1)
    for field, (end, axis) in _SIZES.items():
      if name.endswith(end) and len(shape) == 2:
        sizes[field] = shape[axis]
  if shapes and not any(re.match("bert/.*word_embeddings$", x) for x in shapes):
    raise checkpoint_files.no_encoder(prefix, shapes, _WORDS)
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


def _check_init_checkpoint(settings: TrainedModel | Training, network, trains):
  """Checks --init_checkpoint, or both checkpoints of --attention=shallow."""
  start = settings.needed("init_checkpoint")
  parts = [(start, network.attention)]
  is_explicit = bool(settings.attention)
  if network.attention == "shallow" and "," in start:
    parts = [*zip(start.split(","), SIDES, strict=False)]
    is_explicit = False
  for path, attention in parts:
    if settings.vocab_file:
      _check_case(settings, path, trains)
    prefix = checkpoint_files.find_checkpoint(path)
    _check_sizes(settings.bert_config_file, network, prefix, trains)
    if not is_explicit:
      trained = checkpoint_files.flag_of(path, "attention")
      remedy = "give that value, or this one on purpose"
      _check_same("attention", attention, trained, path, remedy)
    if settings.vocab_file:
      check_vocabulary(settings, network.vocab_size, path)


def _check_case(settings: Tokens, path, trains):
  """Compares --do_lower_case with the training of a checkpoint."""
  lower_case = settings.do_lower_case
  validate_case_matches_checkpoint(lower_case, path)
  flags = checkpoint_files.run_of(path)["flags"]
  # Pre-training without a vocabulary reads records and ignores the flag.
  trained = flags.get("do_lower_case") if flags.get("vocab_file") else None
  try:
    _check_same("do_lower_case", lower_case, trained, path, "give the latter")
  except UserError as error:
    if not trains:
      raise
    logging.warning("%s, unless texts and vocabulary are others", error)


def check_head(settings: FineTuning, name: str) -> None:
  """Raises ValueError if a flag differs from the training of the head."""
  own = checkpoint_files.choose_checkpoint(settings.output_dir)
  start = own or settings.init_checkpoint
  if not start or (not own and settings.do_train and settings.new_head):
    return
  trained = checkpoint_files.flag_of(start, name)
  remedy = (
    "give the latter, or train a fresh head with --new_head in another "
    "--output_dir"
  )
  _check_same(name, settings[name], trained, f"the head of {start}", remedy)


def check_vocabulary(
  settings: Tokens, vocab_size: int, start: str | None
) -> None:
  """Raises ValueError if the model in `start` has another vocabulary."""
  if not start:
    return
  path, ids = settings.needed("vocab_file"), settings.tokenizer.vocab
  saved = model_files.sibling(start, "vocab_file") or run_json.path_of(
    checkpoint_files.run_of(start), "vocab_file"
  )
  if saved and files.exists(saved):
    vocab.check_same(ids, open_tokenizer(saved).vocab, path, saved)
  elif vocab_size - len(ids) >= model_files.PADDING:
    logging.warning(
      "%s has %d lines, but the model of %s has %d ids: is it of that model?",
      settings.vocab_file,
      len(ids),
      start,
      vocab_size,
    )


def vocabulary_flags(settings: Training, vocab_size: int) -> dict:
  """Flags that a run without --vocab_file adds to run.json.

  `vocab_file` is a vocab.txt beside the model's files, if any. `do_lower_case`
  is None, unknown, unless the user has set the flag.
  """
  if settings.vocab_file:
    return {}
  entry = {"flags": settings.to_dict()}
  file = model_files.find_vocabulary(settings.output_dir, entry, vocab_size)
  if not file:
    logging.info(
      "no vocab.txt of the model's size beside its files: copy it into %s to "
      "ask or serve the model",
      settings.output_dir,
    )
    return {}
  logging.info("the vocabulary of the model: %s", file)
  is_known = "do_lower_case" in settings.given
  case = settings.do_lower_case if is_known else None
  return {"vocab_file": file, "do_lower_case": case}


def check_objective(objective: str | None) -> None:
  """Raises ValueError if models of an objective cannot fill masks."""
  if objective in SIDES:
    raise UserError(
      f"a model of --objective={objective} cannot fill masks: take one "
      "that was trained with mlm_nsp or mlm"
    )
