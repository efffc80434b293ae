"""Restores the model that an earlier run would export."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import keras

from modeling.config import BertConfig
from runs import checks
from runs.record import from_record
from runs.session import load
from runs.settings import ServedEncoder, Training
from serving.export import ServedModel
from training import checkpoint_files
from training.run_folder import Checkpoints
from training.step import set_dtype_policy

# Settings of a training program, or of extract_features.py.
S = TypeVar("S", bound=Training | ServedEncoder)


def restore(
  kind: type[S],
  folder: str,
  entry: Mapping,
  build: Callable[[S], ServedModel],
  changes: Mapping,
) -> ServedModel:
  """Restores the model that --do_export would export; see tasks.open.

  `kind` is the settings class of the program, `entry` comes from run.json in
  the folder, `build` makes the model from settings.
  """
  settings = from_record(kind, folder, entry, changes)
  vocab_size = BertConfig.from_json(settings.bert_config_file).vocab_size
  start = checkpoint_files.choose_checkpoint(folder) or settings.init_checkpoint
  checks.check_vocabulary(settings, vocab_size, start)
  before = keras.config.dtype_policy()
  set_dtype_policy(settings.dtype, is_trained=False)
  try:
    result = build(settings)
  finally:
    keras.config.set_dtype_policy(before)
  if isinstance(settings, Training):
    load(settings, result.model, Checkpoints(folder))
  else:
    Checkpoints(folder).load(result.model, settings.init_checkpoint)
  return result
