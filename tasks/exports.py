"""Models as functions of raw text: exports, and folders of trainings."""

import glob
import os
from importlib import import_module

import tasks
from serving import answers, engines
from serving.answers import Answers, TextModel
from storage import UserError, files
from training import run_record

_REMEDY = "name what --do_export wrote, an --output_dir or a model's folder"
_SAVED_MODEL = {"saved_model.pb", "saved_model.pbtxt"}


def open_model(path: str, engine: str = "auto", **changes) -> TextModel:
  """Opens an export, a LiteRT file of one, or a folder of tasks.restore.

  `engine` is one of serving.engines.NAMES: "auto" takes the LiteRT file of
  float32 on a CPU and the SavedModel on a GPU, if the export has both. For
  `changes` see tasks.restore. Raises UserError or FileNotFoundError for others.
  """
  if engine not in engines.NAMES:
    names = ", ".join(engines.NAMES)
    raise UserError(f"there is no engine {engine!r}: take one of {names}")
  if path.endswith(".tflite") and os.path.isfile(path):
    _refuse_changes(path, changes)
    litert = engines.LiteRtEngine(path)
    return TextModel(load_answers(os.path.dirname(path) or "."), litert)
  if not files.is_folder(path):
    raise FileNotFoundError(f"{path} is no folder: {_REMEDY}")
  names = {name.rstrip("/") for name in files.list_folder(path)}
  if kinds := _engines(path, names):
    _refuse_changes(path, changes)
    kind = kinds[0] if engine == "auto" else engine
    if kind not in kinds:
      have = ", ".join(kinds)
      raise UserError(f"{path} is no export for engine={engine}, only {have}")
    model = load_answers(path)
    return TextModel(model, _load_engine(path, kind))
  if any(name.endswith(".keras") for name in names):
    raise UserError(f"{path} is an export for Keras: load it with Keras")
  if names & {run_record.NAME, "bert_config.json"}:
    if engine not in ("auto", "savedmodel"):
      raise UserError(f"{path} is no export, which engine={engine} needs")
    return engines.text_model(tasks.restore(path, **changes))
  remedy = next((f"name {path}/{n}" for n in names if n.isdigit()), _REMEDY)
  raise UserError(f"no export and no {run_record.NAME} in {path}: {remedy}")


def load_answers(folder: str) -> Answers:
  """The Answers of an export; UserError if they are unknown."""
  task, config, settings = answers.load(folder)
  if task not in tasks.folders():
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
  """Returns whether this machine shows an NVIDIA GPU to this process."""
  is_hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1")
  return not is_hidden and bool(glob.glob("/dev/nvidia[0-9]*"))


def _engines(path, names):
  """Engines that an export has files for, the best for this machine first."""
  litert = [k for k, file in answers.LITERT_FILES.items() if file in names]
  if files.is_remote(path):  # LiteRT reads local files
    litert = []
  savedmodel = [] if names.isdisjoint(_SAVED_MODEL) else ["savedmodel"]
  return savedmodel + litert if has_gpu() else litert + savedmodel


def _load_engine(path, kind):
  if kind == "savedmodel":
    return engines.TensorFlowEngine.load(path)
  return engines.LiteRtEngine(os.path.join(path, answers.LITERT_FILES[kind]))


def _refuse_changes(path, changes):
  if changes:
    raise UserError(
      f"{path} is an export, whose flags cannot be changed: leave out "
      f"{', '.join(changes)}, or name the --output_dir of its training"
    )
