"""A trained model as a function of texts, for Python."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from data.features import check_texts
from serving import remote
from serving.answers import Texts
from storage import UserError, setting
from tasks.open import load_answers, open_model


class Predictor:
  """A trained model as a function from texts to dicts of plain Python values.

  Args:
    model: a training's --output_dir, an --export_dir, a LiteRT file in an
      export, or the URL of a TF Serving, http://host:8501/v1/models/NAME.
      Models for vectors of texts: the folder of a released or converted
      checkpoint, or hf://ORGANIZATION/NAME[@REVISION] (docs/models.md).
    engine: which of an export's files to use, one of serving.formats.ENGINES;
      by default LiteRT in float32 on a CPU and the SavedModel on a GPU.
    files: for a URL, the folder of the served export, or a folder with copies
      of task.json, tokenizer_config.json, vocab.txt and labels.txt.
    timeout: for a URL, seconds that a request may take.
    warm_up: answer a short text now, so that the first call is not slower.
    changes: flags with other values than in training, such as vocab_file="..."
      for a moved file; not for exports.

  Attributes:
    inputs: names of the model's inputs.

  Call arguments:
    texts: iterable of texts, for a model with a single input. Models of
      run_ner.py also take lists of words as texts.
    batch_size: number of texts at a time, which bounds the memory.
    inputs: texts by name; `choices` takes lists of texts.

  Returns:
    A dict for each text, in order, without padding; see docs/serving.md.

  Raises:
    FileNotFoundError: the folder or a file of the model does not exist.
    serving.remote.RemoteError: an OSError; the server does not answer.
    storage.UserError: a ValueError; the folder has no such model, or the model
      has other inputs.
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
    if path.startswith(("http://", "https://")):
      if engine != "auto":
        changes["engine"] = engine
      if changes:
        raise UserError(f"{path} is a URL: leave out {', '.join(changes)}")
      if timeout <= 0:
        raise UserError(f"timeout {timeout:g} must be more than 0 seconds")
      if files is None:
        raise UserError(f"{path} is a URL: name its export, {setting('files')}")
      answers = load_answers(os.fspath(files))
      self._answer = remote.text_model(path, answers, timeout)
    else:
      if files is not None:
        raise UserError(f"{path} is no URL of a TF Serving: leave out files")
      if path.startswith("hf://"):
        from conversion import download

        path, lower_case = download.converted(path)
        if lower_case is not None:
          changes.setdefault("do_lower_case", lower_case)
      self._answer = open_model(path, engine, **changes)
    self._ranks = self._answer.answers.inputs
    self._optional = self._answer.answers.optional
    self._words = self._answer.answers.word_lists
    self.inputs = sorted(self._ranks)
    if warm_up:
      self._answer.warm_up()

  def __call__(
    self, texts: Iterable[str] | None = None, batch_size: int = 256, **inputs
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
    """Vectors of texts from the last layer, [N, H]; `normalize`: length 1."""
    if "pooling" not in self._answer.answers.settings:
      raise UserError("this is a model of a task, which has no vectors")
    vectors = [answer["sentence"][-1] for answer in self(texts)]
    array = np.array(vectors, np.float32)
    norms = np.linalg.norm(array, axis=-1, keepdims=True)
    return array / norms if normalize else array

  def check(
    self, inputs: dict[str, Any], texts: Iterable[str] | None = None
  ) -> dict[str, list]:
    """Returns a call's inputs by name; UserError for invalid inputs."""
    needed = [name for name in self.inputs if name not in self._optional]
    if texts is not None and len(needed) == 1 and needed[0] not in inputs:
      inputs, texts = inputs | {needed[0]: texts}, None
    if texts is not None or not {*needed} <= {*inputs} <= {*self.inputs}:
      names = ", ".join(f"{name}=[...]" for name in needed)
      more = "".join(f", and perhaps {name}" for name in self._optional)
      raise UserError(f"this model takes {names}{more}")
    inputs = {
      name: check_texts(name, value, 1 + self._ranks[name], name in self._words)
      for name, value in inputs.items()
    }
    lengths = {name: len(texts) for name, texts in inputs.items()}
    if len(set(lengths.values())) > 1:
      raise UserError(f"the lists are not of one length: {lengths}")
    return inputs
