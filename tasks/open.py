"""Exports and trainings as functions of raw text."""

import glob
import os
from dataclasses import replace
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

from absl import logging

import tasks
from modeling.config import BertConfig, extensions
from runs import vocabulary
from serving import answers, engines
from serving.answers import Answers, TextModel
from storage import UserError, files
from training import checkpoint_files, run_json

_REMEDY = "name what --do_export wrote, an --output_dir or a model's folder"
_SAVED_MODEL = {"saved_model.pb", "saved_model.pbtxt"}


class ModelFiles(NamedTuple):
  """Files of a checkpoint, the case of its texts and its configuration."""

  checkpoint: str
  bert_config_file: str
  vocab_file: str
  do_lower_case: bool
  config: BertConfig


def model_files(path: str) -> ModelFiles:
  """Files of a checkpoint: beside it, or named by the run that wrote it.

  `path` is a folder or the prefix of a checkpoint. Case and configuration are
  those of the run's flags, else of the files. FileNotFoundError if one is gone.
  """
  prefix = checkpoint_files.find_checkpoint(path)
  entry = checkpoint_files.run_of(prefix)
  names = {"bert_config_file": "bert_config.json", "vocab_file": "vocab.txt"}
  paths: list[str] = []
  for flag, name in names.items():
    recorded = run_json.path_of(entry, flag)
    file = checkpoint_files.sibling_file(prefix, name) or recorded
    if not file and flag == "vocab_file":
      size = BertConfig.from_json(paths[0]).vocab_size
      file = vocabulary.find(prefix, entry, size)
    if not file or not files.exists(file):
      raise FileNotFoundError(
        f"there is no {name} beside {prefix}: copy the one of the model there"
      )
    paths.append(file)
  lower_case = vocabulary.lower_cases(entry["flags"], paths[1])
  config = replace(BertConfig.from_json(paths[0]), **extensions(entry["flags"]))
  return ModelFiles(prefix, paths[0], paths[1], lower_case, config)


def restore(folder: str, **changes):
  """Restores the model (serving.export.ServedModel) that --do_export exports.

  `folder` is the program's --output_dir, `changes` are values of flags that
  differ from training. A folder without run.json is that of a checkpoint, whose
  model makes vectors of texts, with flags of extract_features.py in `changes`.
  Raises FileNotFoundError if a file that flags name is gone, ValueError for
  folders of unknown programs, unknown flags and values of the wrong type.
  """
  from runs import restore as runs  # noqa: PLC0415, imports TensorFlow

  entries = run_json.read(folder)
  if not entries:
    task = import_module("tasks.features.task")
    entry, changes = _feature_extraction(folder, changes)
    build = partial(task.served_model, of_tokens=False)
    return runs.restore(task.Settings, folder, entry, build, changes)
  program = entries[-1].get("program")
  modules = [import_module(f"tasks.{name}") for name in folders()]
  paths = {m.PROGRAM: f"{m.__name__}.task" for m in modules if m.PROGRAM}
  if program not in paths:
    raise UserError(
      f"{folder} was trained by {program or 'an unknown program'}, not by one "
      f"of {', '.join(paths)}: name what its --do_export writes"
    )
  task = import_module(paths[program])
  return runs.restore(
    task.Settings, folder, entries[-1], task.served_model, changes
  )


def folders() -> list[str]:
  """Names of the tasks, which are those of the folders here."""
  return [
    module.name for module in iter_modules(tasks.__path__) if module.ispkg
  ]


def _feature_extraction(folder, changes):
  """Entry of run.json and changed flags that extract features of a folder.

  The mean of the last layer's tokens: the vector of [CLS] is trained to tell
  next sentences, not to represent one.
  """
  model = model_files(folder)
  shapes = checkpoint_files.shapes(model.checkpoint)
  tasks_of_head = {"classification", "question_answering", "multiple_choice"}
  if tasks_of_head.intersection(checkpoint_files.kinds_of(shapes)):
    logging.warning(
      "%s has a head for a task, but no %s that says which: here it makes "
      "vectors of texts; its program has answers, and --do_export",
      model.checkpoint,
      run_json.NAME,
    )
  flags = {
    "bert_config_file": model.bert_config_file,
    "vocab_file": model.vocab_file,
    "do_lower_case": model.do_lower_case,
    "max_seq_length": model.config.max_position_embeddings,
    "layers": "-1",
    "pooling": "mean",
    "max_text_length": 4096,
    "window_stride": 0,
    "window_pooling": "mean",
    "dtype": "float32",
    "init_checkpoint": model.checkpoint,
  }
  entry = {"program": "extract_features", "flags": flags}
  return entry, {"init_checkpoint": model.checkpoint} | changes


# --- Exports ---------------------------------------------------------------


def open_model(path: str, engine: str = "auto", **changes) -> TextModel:
  """Opens an export, a LiteRT file of one, or a folder of `restore`.

  `engine` is one of serving.engines.NAMES: "auto" takes the LiteRT file of
  float32 on a CPU and the SavedModel on a GPU, if the export has both. For
  `changes` see `restore`. Raises UserError or FileNotFoundError for others.
  """
  if engine not in engines.NAMES:
    names = ", ".join(engines.NAMES)
    raise UserError(f"there is no engine {engine!r}: take one of {names}")
  if path.endswith(".tflite") and os.path.isfile(path):
    _refuse_changes(path, changes)
    folder, name = os.path.split(path)
    if engine != "auto" and name != answers.LITERT_FILES.get(engine):
      raise UserError(
        f"{path} is not the file of engine={engine}: leave out engine"
      )
    return TextModel(load_answers(folder or "."), engines.LiteRtEngine(path))
  if not files.is_folder(path):
    raise FileNotFoundError(f"{path} is no folder: {_REMEDY}")
  names = {name.rstrip("/") for name in files.list_folder(path)}
  if kinds := _engines(path, names):
    _refuse_changes(path, changes)
    kind = kinds[0] if engine == "auto" else engine
    if kind not in kinds:
      have = ", ".join(kinds)
      raise UserError(f"{path} is no export for engine={engine}, only {have}")
    texts = load_answers(path)
    if kind == "savedmodel":
      return TextModel(texts, engines.TensorFlowEngine.load(path))
    file = os.path.join(path, answers.LITERT_FILES[kind])
    return TextModel(texts, engines.LiteRtEngine(file))
  if any(name.endswith(".keras") for name in names):
    raise UserError(f"{path} is an export for Keras: load it with Keras")
  if names & {run_json.NAME, "bert_config.json"}:
    if engine not in ("auto", "savedmodel"):
      raise UserError(f"{path} is no export, which engine={engine} needs")
    return engines.text_model(restore(path, **changes))
  remedy = next((f"name {path}/{n}" for n in names if n.isdigit()), _REMEDY)
  if any(name.endswith(".safetensors") for name in names):
    remedy = "name what convert_checkpoint.py makes of it"
  raise UserError(f"no export and no {run_json.NAME} in {path}: {remedy}")


def load_answers(folder: str) -> Answers:
  """The Answers of an export; UserError if they are unknown."""
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


def has_gpu() -> bool:
  """True if this machine shows an NVIDIA GPU to this process."""
  is_hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1")
  return not is_hidden and bool(glob.glob("/dev/nvidia[0-9]*"))


def _engines(path, names):
  """Engines that an export has files for, the best for this machine first."""
  litert = [k for k, file in answers.LITERT_FILES.items() if file in names]
  if files.is_remote(path):  # LiteRT reads local files
    litert = []
  savedmodel = [] if names.isdisjoint(_SAVED_MODEL) else ["savedmodel"]
  return savedmodel + litert if has_gpu() else litert + savedmodel


def _refuse_changes(path, changes):
  if changes:
    raise UserError(
      f"{path} is an export, whose flags cannot be changed: leave out "
      f"{', '.join(changes)}, or name the --output_dir of its training"
    )
