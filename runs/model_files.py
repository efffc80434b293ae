"""Reads a model's configuration, and compares a checkpoint with settings."""

import re
from dataclasses import replace

from absl import logging

from data import tokenization, vocab
from modeling.config import SIDES, BertConfig, extensions
from runs import trained_model
from runs.settings import Network, Tokens, TrainedModel, Training
from storage import UserError
from training import checkpoint_files

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


def check(settings: TrainedModel, network: BertConfig) -> None:
  """Checks that flags fit the model in --init_checkpoint, before it predicts.

  `network` is read from --bert_config_file. Raises ValueError for another size,
  vocabulary, letter case or attention.
  """
  check_init_checkpoint(settings, network, trains=False)
  tokenization.warn_of_case(settings.tokenizer)


def check_init_checkpoint(
  settings: TrainedModel | Training, network: BertConfig, trains: bool
) -> None:
  """Checks --init_checkpoint, or both checkpoints of --attention=shallow.

  If the run `trains`, the model in the checkpoint may have another letter case,
  or more layers.
  """
  start = settings.needed("init_checkpoint")
  parts = [(start, network.attention)]
  is_explicit = bool(settings.attention)
  if network.attention == "shallow" and "," in start:
    parts = [*zip(start.split(","), SIDES, strict=False)]
    is_explicit = False
  for path, attention in parts:
    trained = checkpoint_files.run_of(path)["flags"]
    if settings.vocab_file:
      case = settings.do_lower_case
      tokenization.validate_case_matches_checkpoint(case, path)
    # Pre-training without --vocab_file reads records: letter case is unknown.
    if settings.vocab_file and trained.get("vocab_file"):
      lower_case = settings.do_lower_case, trained.get("do_lower_case")
      try:
        check_same("do_lower_case", *lower_case, path, "give that value")
      except UserError as error:
        if not trains:
          raise
        logging.warning("%s, unless texts and vocabulary changed, too", error)
    prefix = checkpoint_files.find_checkpoint(path)
    check_sizes(settings.bert_config_file, network, prefix, trains)
    if not is_explicit:
      remedy = "give that value, or confirm this one by the flag"
      check_same("attention", attention, trained.get("attention"), path, remedy)
    if settings.vocab_file:
      check_vocabulary(settings, network.vocab_size, path)


def check_same(name: str, value, trained, owner: str, remedy: str) -> None:
  """Raises ValueError if `value` differs from `trained`; None means unknown."""
  if trained is not None and str(value).lower() != str(trained).lower():
    raise UserError(
      f"--{name}={value}, but {owner} was trained with --{name}={trained}: "
      f"{remedy}"
    )


def check_sizes(
  config_file: str,
  network: BertConfig,
  prefix: str,
  may_be_deeper: bool = False,
) -> None:
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
  remedy = "take the bert_config.json that came with the checkpoint"
  raise UserError(f"{message}: {remedy}")


def check_vocabulary(settings: Tokens, size: int, start: str | None) -> None:
  """Raises ValueError if the model in `start` has another vocabulary."""
  if not start:
    return
  path, ids = settings.needed("vocab_file"), settings.tokenizer.vocab
  known = [settings.tokenizer]
  if saved := trained_model.file_of(start, "vocab_file"):
    known.append(tokenization.open_tokenizer(saved))  # it may be the same file
    vocab.check_same(ids, known[1].vocab, path, saved)
  if trained_model.is_other(checkpoint_files.run_of(start), *known):
    raise trained_model.other_vocabulary(path, start)
  if saved:
    return
  if size - len(ids) >= trained_model.PADDING:
    logging.warning(
      "%s has %d lines, but the model of %s has %d ids: is it the right file?",
      settings.vocab_file,
      len(ids),
      start,
      size,
    )


def check_objective(objective: str | None) -> None:
  """Raises ValueError if models trained with an objective cannot fill masks."""
  if objective in SIDES:
    raise UserError(
      f"a model of --objective={objective} cannot fill masks: take one "
      "that was trained with mlm_nsp or mlm"
    )
