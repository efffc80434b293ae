"""Opens exports and trained models as functions of raw text."""

import os
from functools import partial
from importlib import import_module
from pkgutil import iter_modules

from absl import logging

import tasks
from runs.model_files import find_model
from serving import answers, formats, savedmodel
from serving.answers import Answers, TextModel
from storage import UserError, files
from training import checkpoint_files, run_json

_REMEDY = "name an export, the folder of a training, or a model's folder"


def restore(folder: str, **changes):
  """Restores the model (serving.export.ServedModel) that --do_export exports.

  `folder` is the program's --output_dir, `changes` are values of flags that
  differ from training. A folder without run.json holds a checkpoint: the model
  makes vectors of texts, and `changes` are flags of extract_features.py.
  Raises FileNotFoundError if a file that flags name is gone, ValueError for
  folders of unknown programs, unknown flags and values of the wrong type.
  """
  from runs import session  # noqa: PLC0415, imports TensorFlow

  entries = run_json.read(folder)
  if not entries:
    task = import_module("tasks.features.task")
    entry, changes = _feature_extraction(folder, changes)
    build = partial(task.served_model, of_tokens=False)
    return session.restore(task.Settings, folder, entry, build, changes)
  program = entries[-1].get("program")
  modules = [import_module(f"tasks.{name}") for name in folders()]
  paths = {m.PROGRAM: f"{m.__name__}.task" for m in modules if m.PROGRAM}
  if program not in paths:
    raise UserError(
      f"{folder} was trained by {program or 'an unknown program'}, not by one "
      f"of {', '.join(paths)}: name an export of it"
    )
  task = import_module(paths[program])
  return session.restore(
    task.Settings, folder, entries[-1], task.served_model, changes
  )


def folders() -> list[str]:
  """Names of the tasks, taken from the folders here."""
  return [
    module.name for module in iter_modules(tasks.__path__) if module.ispkg
  ]


def _feature_extraction(folder, changes):
  """Returns an entry of run.json, and flags, that extract a folder's features.

  The vector is the mean over the last layer's tokens: [CLS] is trained to
  predict the next sentence, not to represent a text.
  """
  model = find_model(folder)
  shapes = checkpoint_files.shapes(model.checkpoint)
  tasks_of_head = {"classification", "question_answering", "multiple_choice"}
  if tasks_of_head.intersection(checkpoint_files.kinds_of(shapes)):
    logging.warning(
      "%s has a head for a task, but no %s that says which: here it makes "
      "vectors of texts; its program has answers, and exports it",
      model.checkpoint,
      run_json.NAME,
    )
  flags = model._asdict() | {
    "max_seq_length": model.config.max_position_embeddings,
    "layers": "-1",
    "pooling": "mean",
  }
  entry = {"program": "extract_features", "flags": flags}
  return entry, {"init_checkpoint": model.checkpoint} | changes


# --- Exports ---------------------------------------------------------------


def open_model(path: str, engine: str = "auto", **changes) -> TextModel:
  """Opens an export, a file in an export, or a folder that `restore` accepts.

  `engine` is one of formats.ENGINES; "auto" takes the best for this machine.
  For `changes` see `restore`. Raises UserError or FileNotFoundError.
  """
  if engine not in formats.ENGINES:
    names = ", ".join(formats.ENGINES)
    raise UserError(f"there is no engine {engine!r}: take one of {names}")
  if kind := formats.of_file(path):
    _refuse_changes(path, changes)
    folder, name = os.path.split(path)
    if engine != "auto" and name != kind.files.get(engine):
      raise UserError(
        f"{path} is not the file of engine={engine}: leave out engine"
      )
    return TextModel(load_answers(folder or "."), kind.module.load(path))
  if not files.is_folder(path):
    raise FileNotFoundError(f"{path} is no folder: {_REMEDY}")
  names = {name.rstrip("/") for name in files.list_folder(path)}
  if kinds := formats.engines_of(path, names):
    _refuse_changes(path, changes)
    name = kinds[0] if engine == "auto" else engine
    if name not in kinds:
      have = ", ".join(kinds)
      raise UserError(f"{path} is no export for engine={engine}, only {have}")
    return TextModel(load_answers(path), formats.load(path, name))
  if any(name.endswith(".keras") for name in names):
    raise UserError(f"{path} is an export for Keras: load it with Keras")
  if names & {run_json.NAME, "bert_config.json"}:
    if engine not in ("auto", "savedmodel"):
      raise UserError(f"{path} is no export, which engine={engine} needs")
    return savedmodel.text_model(restore(path, **changes))
  remedy = next((f"name {path}/{n}" for n in names if n.isdigit()), _REMEDY)
  if any(name.endswith(".safetensors") for name in names):
    remedy = "convert it by convert_checkpoint.py"
  raise UserError(f"no export and no {run_json.NAME} in {path}: {remedy}")


def load_answers(folder: str) -> Answers:
  """Loads the Answers of an export; UserError for unknown tasks or settings."""
  task, config, settings = answers.load(folder)
  if task not in folders():
    raise UserError(
      f"{folder}: {answers.TASK_FILE} names the task {task!r}, which this "
      "version does not have"
    )
  try:
    answers_of_task = import_module(f"tasks.{task}.answers")
    return answers_of_task.Answers(config, **settings)
  except TypeError as error:
    raise UserError(
      f"{folder}: {answers.TASK_FILE} has other settings than this version "
      f"knows, export the model again: {error}"
    ) from None


def _refuse_changes(path, changes):
  if changes:
    raise UserError(
      f"{path} is an export, whose flags cannot be changed: leave out "
      f"{', '.join(changes)}, or name the folder of its training"
    )
