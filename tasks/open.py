"""Predictor opens an export or a trained model as a function of texts."""

import os
import re
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np
from absl import logging

import tasks
from data.features import check_texts
from runs.trained_model import find_model
from serving import answers, formats, remote, savedmodel
from serving.answers import Answers, TextModel, Texts
from storage import UserError, files, setting
from storage.files import absolute
from training import checkpoint_files, run_json

_PATHS = ("file", "files")  # ends of the names of options that hold paths
_REMEDY = "name an export, the folder of a training, or a model's folder"


def restore(folder: str, **changes):
  """Restores a trained model as the ServedModel that --do_export would export.

  `changes` are flags with other values than in training. Without run.json in
  the folder, the model makes vectors of texts, and `changes` are flags of
  extract_features.py. Raises FileNotFoundError for a missing file, ValueError
  for unknown programs and flags.
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
      f"of {', '.join(paths)}: name an export of the model"
    )
  task = import_module(paths[program])
  entry, build = entries[-1], task.served_model
  return session.restore(task.Settings, folder, entry, build, changes)


def folders() -> list[str]:
  """Names of the tasks: the names of the folders in tasks/."""
  return [m.name for m in iter_modules(tasks.__path__) if m.ispkg]


def _feature_extraction(folder, changes):
  """Makes the entry that run.json would have, for a folder without run.json.

  Also returns `changes`, and adds the folder's checkpoint as `init_checkpoint`
  if they have none.
  """
  model = find_model(folder)
  shapes = checkpoint_files.shapes(model.checkpoint)
  tasks_of_head = {"classification", "question_answering", "multiple_choice"}
  if tasks_of_head.intersection(checkpoint_files.kinds_of(shapes)):
    logging.warning(
      "%s has the head of a task, but no %s names the task: here it only makes "
      "vectors of texts; for answers, use the program that trained the model",
      model.checkpoint,
      run_json.NAME,
    )
  # The mean, because [CLS] is trained to predict whether a sentence comes next.
  length = model.config.max_position_embeddings
  flags = model._asdict() | {"max_seq_length": length}
  flags |= {"layers": "-1", "pooling": "mean"}
  entry = {"program": "extract_features", "flags": flags}
  return entry, {"init_checkpoint": model.checkpoint} | changes


# --- Exports ---------------------------------------------------------------


def open_model(path: str, engine: str = "auto", **changes) -> TextModel:
  """Opens an export, a file in an export, or a folder that `restore` accepts.

  `engine` is one of formats.ENGINES; "auto" takes the best for this machine.
  For `changes` see `restore`. Raises UserError or FileNotFoundError.
  """
  try:
    return _open(path, engine, changes)
  except ModuleNotFoundError as error:
    if error.name not in ("keras", "tensorflow"):
      raise
    raise UserError(
      f"{path} needs TensorFlow: pip install -r requirements.txt; an export in "
      "the format tflite does not"
    ) from None


def _open(path, engine, changes) -> TextModel:
  if engine not in formats.ENGINES:
    names = ", ".join(formats.ENGINES)
    raise UserError(f"there is no engine {engine!r}: take one of {names}")
  kind, names, kinds = formats.of_file(path), set[str](), []
  if not kind:
    if not files.is_folder(path):
      raise FileNotFoundError(f"{path} is not a folder: {_REMEDY}")
    names = {name.rstrip("/") for name in files.list_folder(path)}
    kinds = formats.engines_of(path, names)
  if changes and (kind or kinds):
    raise UserError(
      f"{path} is an export, whose flags cannot be changed: leave out "
      f"{', '.join(changes)}, or name the folder of its training"
    )
  if kind:
    folder, name = os.path.split(path)
    if engine != "auto" and name != kind.files.get(engine):
      text = f"{path} is not the file of engine={engine}: leave out engine"
      raise UserError(text)
    return TextModel(load_answers(folder or "."), kind.module.load(path))
  if kinds:
    name = kinds[0] if engine == "auto" else engine
    if name not in kinds:
      have = ", ".join(kinds)
      raise UserError(f"{path} is an export for {have}, not engine={engine}")
    return TextModel(load_answers(path), formats.load(path, name))
  if any(name.endswith(".keras") for name in names):
    raise UserError(f"{path} is an export for Keras: load it with Keras")
  if names & {run_json.NAME, "bert_config.json"}:
    if engine not in ("auto", "savedmodel"):
      raise UserError(f"{path} is not an export, which engine={engine} needs")
    savedmodel.check_process()
    return savedmodel.text_model(restore(path, **changes))
  versions = sorted(filter(str.isdecimal, names), key=int)
  remedy = f"name {path}/{versions[-1]}" if versions else _REMEDY
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
    return import_module(f"tasks.{task}.answers").Answers(config, **settings)
  except TypeError as error:
    raise UserError(
      f"{folder}: {answers.TASK_FILE} has other settings than this version "
      f"knows, export the model again: {error}"
    ) from None


class Predictor:
  """A trained model as a function from texts to dicts of plain Python values.

  Args:
    model: a training's --output_dir, an --export_dir, a LiteRT file in an
      export, or the URL of a TF Serving, http://host:8501/v1/models/NAME.
      For vectors of texts, also the folder of a released or converted
      checkpoint, or hf://ORGANIZATION/NAME[@REVISION] (docs/models.md).
    engine: which of an export's files to use, one of serving.formats.ENGINES;
      by default LiteRT in float32 on a CPU and the SavedModel on a GPU.
    files: for a URL, the folder of the served export, or a folder with copies
      of task.json, tokenizer_config.json, vocab.txt and labels.txt.
    timeout: for a URL, seconds that a request may take.
    warm_up: answer a short text now, so that the first call takes less time.
    changes: flags with other values than in training, such as vocab_file="..."
      for a moved file; not for exports.

  A call takes `texts` if the model needs a single input, otherwise a list of
  texts for each input, by name. Models of run_ner.py also take lists of words.
  The input `choices` of run_swag.py's models takes lists of texts. A smaller
  `batch_size` needs less memory. A call returns a dict for each example, in
  order; see docs/serving.md.

  Raises FileNotFoundError for a missing file, serving.remote.RemoteError (an
  OSError) if a server does not answer, or storage.UserError (a ValueError) for
  a model or inputs that cannot be used.
  """

  def __init__(
    self,
    model: str | os.PathLike,
    engine: str = "auto",
    files: str | os.PathLike | None = None,
    timeout: float = 30.0,
    warm_up: bool = False,
    **changes,
  ):
    path = os.fspath(model)
    options = {"engine": engine, "files": files, "timeout": timeout, **changes}
    for name, value in options.items():
      if isinstance(value, str | os.PathLike) and name.endswith(_PATHS):
        options[name] = absolute(os.fspath(value))
    self._source = partial(Predictor, absolute(path), **options)
    if path.startswith(("http://", "https://")):
      shown = re.sub("//.*@", "//", path)  # without a password
      if engine != "auto":
        changes["engine"] = engine
      if changes:
        raise UserError(f"{shown} is a URL: leave out {', '.join(changes)}")
      if timeout <= 0:
        raise UserError(f"timeout {timeout:g} must be more than 0 seconds")
      if files is None:
        raise UserError(
          f"{shown} is a URL: name the folder of its export, {setting('files')}"
        )
      own = load_answers(os.fspath(files))
      self._answer = remote.text_model(path, own, timeout)
    else:
      if files is not None:
        raise UserError(f"{path} is not a URL of a TF Serving: leave out files")
      if path.startswith("hf://"):
        from conversion import download  # noqa: PLC0415, loads models

        path, lower_case = download.converted(path)
        if lower_case is not None:
          changes.setdefault("do_lower_case", lower_case)
      self._answer = open_model(path, engine, **changes)
    self.inputs = sorted(self._answer.answers.inputs)
    if warm_up:
      self._answer.warm_up()

  def __reduce__(self):
    return self._source, ()  # the process that unpickles opens the model anew

  def __call__(
    self, texts: Iterable[str] | None = None, batch_size: int = 256, **inputs
  ) -> list[dict]:
    if not isinstance(batch_size, int | np.integer) or batch_size < 1:
      raise UserError(
        f"batch_size {str(batch_size)[:40]} must be at least 1; give inputs "
        "after the first by name, as in text_b=[...]"
      )
    inputs = self.check(inputs, texts)
    rows = zip(*inputs.values(), strict=True)
    examples = [dict(zip(inputs, row, strict=True)) for row in rows]
    results = []
    for start in range(0, len(examples), batch_size):
      results += self.answer(examples[start : start + batch_size])
    return results

  def answer(self, examples: Sequence[Texts]) -> list[dict]:
    """Answers examples, which `check` has accepted, in one batch."""
    return self._answer(examples)

  def embed(self, texts: Iterable[str], normalize: bool = False) -> np.ndarray:
    """Returns a vector for each text, [N, H].

    `normalize` gives each vector the length 1. Raises UserError for a model of
    a task, or of several layers.
    """
    if "pooling" not in self._answer.answers.settings:
      raise UserError(
        "this is a model of a task, which has no vectors; its checkpoint gives "
        "vectors after convert_checkpoint.py --strip_optimizer"
      )
    layers, width = self._vectors_shape
    if layers > 1:
      raise UserError(
        f"the model has vectors of {layers} layers, and embed returns one: "
        f"name a layer, as in {setting('layers', '-1')}, and export again if "
        "this is an export; the answers' `sentence` has all layers"
      )
    vectors = [answer["sentence"] for answer in self(texts)]
    array = np.array(vectors, np.float32).reshape(-1, width)
    norms = np.linalg.norm(array, axis=-1, keepdims=True)
    return array / norms if normalize else array

  @cached_property
  def _vectors_shape(self) -> tuple[int, int]:
    """Number of layers in a text's vectors, and their size."""
    [answer] = self([""])
    return np.shape(answer["sentence"])

  def check(
    self, inputs: dict[str, Any], texts: Iterable[str] | None = None
  ) -> dict[str, list]:
    """Returns a call's inputs by name; UserError for invalid inputs."""
    own = self._answer.answers
    needed = [name for name in self.inputs if name not in own.optional]
    if texts is not None and len(needed) == 1 and needed[0] not in inputs:
      inputs, texts = inputs | {needed[0]: texts}, None
    if texts is not None or not {*needed} <= {*inputs} <= {*self.inputs}:
      names = ", ".join(f"{name}=[...]" for name in needed)
      more = "".join(f", and perhaps {name}" for name in own.optional)
      raise UserError(f"this model takes {names}{more}")
    inputs = {
      name: check_texts(name, v, 1 + own.inputs[name], name in own.word_lists)
      for name, v in inputs.items()
    }
    lengths = {name: len(texts) for name, texts in inputs.items()}
    if len(set(lengths.values())) > 1:
      raise UserError(f"the lists are not of one length: {lengths}")
    return inputs
