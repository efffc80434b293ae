"""Files of a trained model: found, read, and compared with settings."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from absl import logging

from data import tokenization, vocab, vocab_checks
from data.tokenization import (
  doubt_case,
  open_tokenizer,
  validate_case_matches_checkpoint,
)
from data.vocab import Tokenizer
from modeling.config import SIDES, BertConfig, extensions
from runs.settings import Network, Tokens, TrainedModel, Training
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
_PADDING = 128  # embedding tables may be padded to a multiple of this


class ModelFiles(NamedTuple):
  """Paths of a model's files, letter case of texts, and configuration."""

  checkpoint: str
  bert_config_file: str
  vocab_file: str
  do_lower_case: bool
  config: BertConfig

  @property
  def tokenizer(self) -> Tokenizer:
    return open_tokenizer(self.vocab_file, self.do_lower_case)


def find_model(path: str) -> ModelFiles:
  """Finds the files of a checkpoint: in the same folder, or by run.json.

  `path` is a folder or the prefix of a checkpoint. Flags in run.json override
  the files' letter case and configuration. Raises FileNotFoundError.
  """
  prefix = checkpoint_files.find_checkpoint(path)
  entry = checkpoint_files.run_of(prefix)
  names = {"bert_config_file": "bert_config.json", "vocab_file": "vocab.txt"}
  paths: list[str] = []
  for flag, name in names.items():
    file = sibling(prefix, flag) or run_json.path_of(entry, flag)
    if not file and flag == "vocab_file":
      size = BertConfig.from_json(paths[0]).vocab_size
      file = find_vocabulary(prefix, entry, size)
    if not file or not files.exists(file):
      raise FileNotFoundError(
        f"there is no {name} beside {prefix}: copy the one of the model there"
      )
    paths.append(file)
  lower_case = lower_cases(entry["flags"], paths[1])
  config = replace(BertConfig.from_json(paths[0]), **extensions(entry["flags"]))
  return ModelFiles(prefix, paths[0], paths[1], lower_case, config)


def sibling(path: str, flag: str) -> str | None:
  """Path of a flag's file in a checkpoint's folder, or None.

  The flag is `bert_config_file`, or `vocab_file` for a vocabulary of any kind.
  """
  is_vocabulary = flag == "vocab_file"
  names = tokenization.names() if is_vocabulary else ["bert_config.json"]
  paths = (checkpoint_files.sibling_file(path, name) for name in names)
  return next(filter(None, paths), None)


def find_vocabulary(start: str, entry: Mapping, vocab_size: int) -> str | None:
  """Finds a vocabulary of the model's size beside a run's files, or None.

  `start` is the run's folder or checkpoint, `entry` comes from run.json.
  """
  flags = ("bert_config_file", "init_checkpoint")
  for path in (start, *(run_json.path_of(entry, flag) for flag in flags)):
    file = path and sibling(path, "vocab_file")
    with suppress(UserError, OSError):  # another file of that name
      if file and 0 <= vocab_size - len(open_tokenizer(file).vocab) < _PADDING:
        return file.removeprefix("./")
  return None


def lower_cases(trained_flags: Mapping, vocab_file: str) -> bool:
  """True if a model lower-cases texts, by the run's flags or the vocabulary."""
  known = trained_flags.get("do_lower_case")
  if known is None or not trained_flags.get("vocab_file"):
    tokens = open_tokenizer(vocab_file).vocab
    return doubt_case(tokens, True) is None
  return known


# --- Compared with settings ---------------------------------------------------


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
  """Checks that flags fit the model in --init_checkpoint, to predict with.

  `network` is read from --bert_config_file. Raises ValueError for another size,
  vocabulary, letter case or attention.
  """
  check_init_checkpoint(settings, network, trains=False)
  vocab_checks.warn_of_case(settings.tokenizer)


def check_init_checkpoint(
  settings: TrainedModel | Training, network: BertConfig, trains: bool
) -> None:
  """Checks --init_checkpoint, or both checkpoints of --attention=shallow.

  A model that is trained on may have other letter case or more layers.
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
      validate_case_matches_checkpoint(settings.do_lower_case, path)
    # Pre-training without a vocabulary reads records and ignores the flag.
    if settings.vocab_file and trained.get("vocab_file"):
      lower_case = settings.do_lower_case, trained.get("do_lower_case")
      try:
        check_same("do_lower_case", *lower_case, path, "give the latter")
      except UserError as error:
        if not trains:
          raise
        logging.warning("%s, unless texts and vocabulary are others", error)
    prefix = checkpoint_files.find_checkpoint(path)
    check_sizes(settings.bert_config_file, network, prefix, trains)
    if not is_explicit:
      remedy = "give that value, or this one on purpose"
      check_same("attention", attention, trained.get("attention"), path, remedy)
    if settings.vocab_file:
      check_vocabulary(settings, network.vocab_size, path)


def check_same(name: str, value, trained, owner: str, remedy: str) -> None:
  """Raises ValueError if a flag differs from a training; None is unknown."""
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
  raise UserError(
    f"{message}: take the bert_config.json that came with the checkpoint"
  )


def check_vocabulary(
  settings: Tokens, vocab_size: int, start: str | None
) -> None:
  """Raises ValueError if the model in `start` has another vocabulary."""
  if not start:
    return
  path, ids = settings.needed("vocab_file"), settings.tokenizer.vocab
  saved = sibling(start, "vocab_file") or run_json.path_of(
    checkpoint_files.run_of(start), "vocab_file"
  )
  if saved and files.exists(saved):
    vocab.check_same(ids, open_tokenizer(saved).vocab, path, saved)
  elif vocab_size - len(ids) >= _PADDING:
    logging.warning(
      "%s has %d lines, but the model of %s has %d ids: is it of that model?",
      settings.vocab_file,
      len(ids),
      start,
      vocab_size,
    )


def check_objective(objective: str | None) -> None:
  """Raises ValueError if models of an objective cannot fill masks."""
  if objective in SIDES:
    raise UserError(
      f"a model of --objective={objective} cannot fill masks: take one "
      "that was trained with mlm_nsp or mlm"
    )
