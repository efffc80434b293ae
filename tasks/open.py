"""Predictor opens an export or a trained model as a function of texts."""

import os
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np

import tasks
from data.features import check_texts
from runs.trained_model import find_model
from serving import answers, formats, remote, savedmodel
from serving.answers import Answers, TextModel, Texts
from storage import UserError, files, setting
from storage.files import absolute
from training import checkpoint_files

_REMEDY = (
  "name an export (such as FOLDER/1), the folder of a training, or a folder "
  "that convert_checkpoint.py wrote"
)


def restore(folder: str, **changes):
  """Restores a trained model as the ServedModel that --do_export would export.

  `changes` are flags with other values than in training. Without run.json in
  the folder, the model makes vectors of texts, and `changes` are flags of
  extract_features.py. Raises FileNotFoundError for a missing file, ValueError
  for unknown programs and flags.
  """
  from runs import session  # noqa: PLC0415, imports TensorFlow

  entries = checkpoint_files.read_runs(folder)
  if not entries:
    task = import_module("tasks.features.task")
    build = partial(task.served_model, of_tokens=False)
    model = find_model(folder)
    length = model.config.max_position_embeddings
    # [CLS] is trained to predict whether a sentence comes next.
    flags = {"max_seq_length": length, "layers": "-1", "pooling": "mean"}
    entry = {"program": "extract_features", "flags": model._asdict() | flags}
    changes = {"init_checkpoint": model.checkpoint} | changes
    return session.restore(task.Settings, folder, entry, build, changes)
  program = entries[-1].get("program")
  folders = [m.name for m in iter_modules(tasks.__path__) if m.ispkg]
  modules = [import_module(f"tasks.{name}") for name in folders]
  paths = {m.PROGRAM: f"{m.__name__}.task" for m in modules if m.PROGRAM}
  if program not in paths:
    raise UserError(
      f"{folder} was trained by {program or 'an unknown program'}, not by one "
      f"of {', '.join(paths)}: name an export of the model"
    )
  task = import_module(paths[program])
  entry, build = entries[-1], task.served_model
  return session.restore(task.Settings, folder, entry, build, changes)


def open_model(path: str, engine: str = "auto", **changes) -> TextModel:
  """Opens an export, or a folder that `restore` accepts.

  `engine` is one of formats.ENGINES; "auto" takes the best for this machine.
  For `changes` see `restore`. Raises UserError or FileNotFoundError.
  """
  if not files.is_folder(path):
    raise FileNotFoundError(f"{path} is not a folder: {_REMEDY}")
  names = {name.rstrip("/") for name in files.list_folder(path)}
  if engines := formats.engines_of(path, names):
    if changes:
      raise UserError(
        f"{path} is an export, whose flags cannot be changed: leave out "
        f"{', '.join(changes)}, or name the folder of its training"
      )
    name = engines[0] if engine == "auto" else engine
    if name not in engines:
      have = ", ".join(engines)
      raise UserError(f"{path} is an export for {have}, not engine={engine}")
    return TextModel(load_answers(path), formats.load(path, name))
  if names.isdisjoint({"run.json", "bert_config.json"}):
    raise UserError(
      f"{path} has no export that Predictor opens, and no run.json: {_REMEDY}"
    )
  if engine not in ("auto", "savedmodel"):
    raise UserError(f"{path} is not an export, which engine={engine} needs")
  savedmodel.check_process()
  return savedmodel.text_model(restore(path, **changes))


def load_answers(folder: str) -> Answers:
  """Loads the Answers of an export; UserError for unknown tasks or settings."""
  task, config, settings = answers.load(folder)
  try:
    return import_module(f"tasks.{task}.answers").Answers(config, **settings)
  except (ImportError, TypeError) as error:
    raise UserError(
      f"{folder}: this version does not know the task or a setting in "
      f"{answers.TASK_FILE}, export the model again: {error}"
    ) from None


class Predictor:
  """A trained model as a function from texts to dicts of plain Python values.

  Args:
    model: a training's --output_dir, an --export_dir, or the URL of a TF
      Serving, http://host:8501/v1/models/NAME. For vectors of texts, also the
      folder of a released or converted checkpoint, or
      hf://ORGANIZATION/NAME[@REVISION] (docs/models.md).
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
    path = absolute(os.path.expanduser(model))
    self._source = partial(Predictor, path, engine, files, timeout, **changes)
    if path.startswith(("http://", "https://")):
      if files is None or engine != "auto" or changes:
        raise UserError(
          f"for a URL, give {setting('files')}, the folder of the served "
          "export, and neither an engine nor flags of the training"
        )
      own = load_answers(os.path.expanduser(files))
      self._answer = remote.text_model(path, own, timeout)
    else:
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
    self, texts: Iterable[str] | None = None, *, batch_size: int = 256, **inputs
  ) -> list[dict]:
    if batch_size < 1:
      raise UserError(f"batch_size {batch_size} must be at least 1")
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
    if self._answer.engine.outputs["values"][-2] > 1:
      raise UserError(
        "the model has vectors of several layers, and embed returns one: open "
        "(or export) it with a single layer, as in "
        f"{setting('layers', '-1')}; the answers' `sentence` has all layers"
      )
    texts = self.check({}, texts)["text"]
    answers = self._answer.stream({"text": text} for text in texts)
    vectors = [np.array(answer["sentence"][0], "f4") for answer in answers]
    array = np.array(vectors, np.float32)
    norms = np.linalg.norm(array, axis=-1, keepdims=True)
    return array / norms if normalize else array

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
      given = f"; given: {', '.join(inputs)}" if inputs else ""
      raise UserError(f"this model takes {names}{more}{given}")
    inputs = {
      name: check_texts(name, v, 1 + own.inputs[name], name in own.word_lists)
      for name, v in inputs.items()
    }
    lengths = {name: len(texts) for name, texts in inputs.items()}
    if len(set(lengths.values())) > 1:
      raise UserError(f"the lists are not of one length: {lengths}")
    return inputs
