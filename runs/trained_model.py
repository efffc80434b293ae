"""Finds the files of a model, beside its checkpoint or at paths in run.json."""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from absl import logging

from data import tokenization
from data.vocab import Tokenizer
from modeling.config import BertConfig, extensions, without_shape
from storage import UserError, setting
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


class ModelFiles(NamedTuple):
  """Paths of a model's files, letter case of texts, and configuration."""

  checkpoint: str
  bert_config_file: str
  vocab_file: str
  do_lower_case: bool
  config: BertConfig


def find_model(path: str) -> ModelFiles:
  """Finds the files of a checkpoint, in its folder or at paths in run.json.

  `path` is a folder or the prefix of a checkpoint. Flags in run.json override
  bert_config.json and the vocabulary's letter case. Raises FileNotFoundError.
  """
  prefix = checkpoint_files.find_checkpoint(path)
  entry = checkpoint_files.run_of(prefix)
  config_file = existing_file(prefix, "bert_config_file", entry)
  config = BertConfig.from_json(config_file)
  check_sizes(config_file, config, prefix)
  vocab_file = existing_file(prefix, "vocab_file", entry, config_file)
  tokenizer = tokenization.open_tokenizer(vocab_file)
  check_fingerprint(entry, tokenizer, prefix)
  lower_case = entry["flags"].get("do_lower_case")
  if lower_case is None:
    lower_case = tokenization.doubt_case(tokenizer.vocab, True) is None
  config = replace(config, **extensions(entry["flags"]))
  return ModelFiles(prefix, config_file, vocab_file, lower_case, config)


def check_sizes(
  config_file: str, network: BertConfig, prefix: str, trains: bool = False
) -> None:
  """Raises ValueError if a checkpoint does not fit the network's configuration.

  If the run `trains`, more layers in the checkpoint only cause a warning.
  """
  shapes = checkpoint_files.shapes(prefix)
  layers = [int(layer[1]) + 1 for layer in map(_LAYER.search, shapes) if layer]
  sizes = {"num_hidden_layers": max(layers)} if layers else {}
  for name, shape in shapes.items():
    for field, (end, axis) in _SIZES.items():
      if name.endswith(end) and len(shape) == 2:
        sizes[field] = shape[axis]
  if shapes and not any(re.match("bert/.*word_embeddings$", x) for x in shapes):
    raise checkpoint_files.no_encoder(prefix, shapes, _WORDS)
  sizes |= without_shape(checkpoint_files.config_of(prefix))
  expected = {field: getattr(network, field) for field in sizes}
  different = [field for field in sizes if sizes[field] != expected[field]]
  if not different:
    return
  trained, configured = (
    " and ".join(f"{field} {values[field]}" for field in different)
    for values in (sizes, expected)
  )
  file = setting("bert_config_file", config_file)
  text = f"the checkpoint {prefix} has {trained}, but {file} has {configured}"
  is_deeper = layers and max(layers) > network.num_hidden_layers
  if trains and is_deeper and different == ["num_hidden_layers"]:
    logging.warning("%s: the upper layers are left out", text)
    return
  remedy = "take the bert_config.json that came with the checkpoint"
  raise UserError(f"{text}: {remedy}")


def check_fingerprint(entry: Mapping, tokenizer: Tokenizer, start: str) -> None:
  """Raises UserError if a vocabulary lacks the fingerprint in run.json."""
  mark = entry.get("vocabulary")
  if mark and not tokenizer.fits(mark):
    raise UserError(
      f"{tokenizer.vocab_file} is not the vocabulary with which {start} was "
      "trained: give that file, or copy it into the model's folder"
    )


def existing_file(
  path: str, flag: str, entry: Mapping, config_file: str = ""
) -> str:
  """Path of a model's file, beside the checkpoint or as `entry` names it.

  The flag is `bert_config_file`, or `vocab_file` for a vocabulary of any kind
  that fits `config_file`.
  """
  is_vocabulary = flag == "vocab_file"
  names = tokenization.names() if is_vocabulary else ["bert_config.json"]
  file = checkpoint_files.file_of(path, flag, *names, entry=entry)
  if not file and is_vocabulary:
    size = BertConfig.from_json(config_file).vocab_size
    file = find_vocabulary(path, entry, size)
  if file:
    return file
  named = checkpoint_files.path_of(entry, flag)
  record = f" (its run.json names {named})" if entry["flags"] else ""
  raise FileNotFoundError(
    f"there is no {names[0]} beside {path}{record}: copy the model's file into "
    "this folder"
  )


def find_vocabulary(start: str, entry: Mapping, vocab_size: int) -> str | None:
  """Finds a vocabulary with at most `vocab_size` tokens; path or None.

  Searches the folder `start`, or the folder of the checkpoint `start`. Then
  searches the folders of the configuration and of the initial checkpoint that
  `entry` names. `entry` comes from run.json. The vocabulary's fingerprint in
  it, if any, must match.
  """
  mark = entry.get("vocabulary")
  flags = ("bert_config_file", "init_checkpoint")
  named = [checkpoint_files.path_of(entry, flag) for flag in flags]
  folders = filter(None, (start, *named))
  for folder, name in product(folders, tokenization.names()):
    if file := checkpoint_files.sibling_file(folder, name):
      tokenizer = tokenization.open_tokenizer(file)
      is_small = len(tokenizer.vocab) <= vocab_size
      if is_small and (not mark or tokenizer.fits(mark)):
        return file
  return None
