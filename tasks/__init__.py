"""One folder for each task: examples, records, metrics, serving."""

from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

from data import vocab, vocab_checks
from modeling.config import BertConfig
from storage import UserError, files
from training import run_record


class ModelFiles(NamedTuple):
  """Files of a checkpoint, and the case of its texts."""

  checkpoint: str
  bert_config_file: str
  vocab_file: str
  do_lower_case: bool


def model_files(path: str) -> ModelFiles:
  """Files of a checkpoint: beside it, or named by the run that wrote it.

  `path` is a folder or the prefix of a checkpoint. The case is that of the run,
  else of the vocabulary. Raises FileNotFoundError if a file is missing.
  """
  prefix = run_record.find_checkpoint(path, prefer_best=None)
  entry = run_record.of_checkpoint(prefix)
  paths: list[str] = []
  for flag, name in (
    ("bert_config_file", "bert_config.json"),
    ("vocab_file", "vocab.txt"),
  ):
    recorded = run_record.path_of(entry, flag)
    file = run_record.sibling_file(prefix, name) or recorded
    if not file or not files.exists(file):
      raise FileNotFoundError(
        f"there is no {name} beside {prefix}: copy the one of the model there"
      )
    paths.append(file)
  lower_case = entry["flags"].get("do_lower_case")
  if not entry["flags"].get("vocab_file"):  # pre-training may not know the case
    lower_case = vocab_checks.doubt_case(vocab.load(paths[1]), True) is None
  return ModelFiles(prefix, paths[0], paths[1], lower_case)


def restore(folder: str, **changes):
  """Restores the model (serving.export.ServedModel) that --do_export exports.

  `folder` is the program's --output_dir, `changes` are values of flags that
  differ from training. A folder without run.json is that of a checkpoint, whose
  model makes vectors of texts, with flags of extract_features.py in `changes`.
  Raises FileNotFoundError if a file that flags name is gone, ValueError if no
  known program has trained there or a flag in `changes` is unknown or of the
  wrong type.
  """
  from cli import fine_tuning  # noqa: PLC0415, imports TensorFlow

  entries = run_record.read(folder)
  if not entries:
    task = import_module("tasks.features.task")
    entry, changes = _feature_extraction(folder, changes)
    build = partial(task.served_model, of_tokens=False)
    return fine_tuning.restore(folder, entry, build, changes)
  program, tasks = entries[-1].get("program"), _by_program()
  if program not in tasks:
    raise UserError(
      f"{folder} was trained by {program or 'an unknown program'}, not by one "
      f"of {', '.join(tasks)}: name what its --do_export writes"
    )
  task = import_module(tasks[program])
  return fine_tuning.restore(folder, entries[-1], task.served_model, changes)


def folders() -> list[str]:
  """Names of the tasks, which are those of the folders here."""
  return [module.name for module in iter_modules(__path__) if module.ispkg]


def _by_program():
  """Modules of the tasks by the program that trains them, if one does."""
  modules = [import_module(f"{__name__}.{folder}") for folder in folders()]
  return {m.PROGRAM: f"{m.__name__}.task" for m in modules if m.PROGRAM}


def _feature_extraction(folder, changes):
  """Entry of run.json and changed flags that extract features of a folder.

  The mean of the last layer's tokens: the vector of [CLS] is trained to tell
  next sentences, not to represent one.
  """
  checkpoint, config, vocab_file, lower_case = model_files(folder)
  flags = {
    "bert_config_file": config,
    "vocab_file": vocab_file,
    "do_lower_case": lower_case,
    "max_seq_length": BertConfig.from_json(config).max_position_embeddings,
    "layers": "-1",
    "pooling": "mean",
    "max_text_length": 4096,
    "window_stride": 0,
    "window_pooling": "mean",
    "dtype": "float32",
    "init_checkpoint": checkpoint,
  }
  entry = {"program": "extract_features", "flags": flags}
  return entry, {"init_checkpoint": checkpoint} | changes
