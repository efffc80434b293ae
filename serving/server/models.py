"""Models by name and version, loaded and unloaded as in TF Serving."""

import contextlib
import gc
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from threading import Event, Thread
from typing import Any

from absl import logging

from serving.engines import first_line
from serving.formats import FILES
from serving.server import RestError
from storage import UserError, files, setting

_VERSION = re.compile("[0-9]{1,18}")
_RETRY_SECONDS = 60  # as in TF Serving
NOT_LOADED = "could not be loaded: the server's log says why"


def split_name(text: str) -> tuple[str, str]:
  """Splits NAME=FOLDER, or FOLDER, into the name and the folder of a model.

  Raises FileNotFoundError for a missing folder, and UserError if the folder has
  no model, or if the name cannot be a part of a URL.
  """
  name, folder = text.split("=", 1) if "=" in text else ("", text)
  folder = os.path.expanduser(folder.rstrip("/"))
  parts = folder.split("/")
  if not name and len(parts) > 1 and _VERSION.fullmatch(parts[-1]):
    name = parts[-2]
  name = name or parts[-1]
  given = setting("model", text)
  if not re.fullmatch(r"[^/:\s.][^/:\s]*", name):
    raise UserError(f"{given} has no name: give it one, as in bert=...")
  if not files.is_folder(folder):
    raise FileNotFoundError(f"{given}: there is no folder {folder}")
  if not find_versions(folder):
    raise UserError(
      f"{given}: {folder} has no model and no folder with a number: "
      "name an export, the folder around it, or the folder of a training"
    )
  return name, folder


def find_versions(folder: str) -> dict[int, str]:
  """Returns {version: folder}; an export in no numbered folder is version 1."""
  names = [name.rstrip("/") for name in files.list_folder(folder)]
  if not {*FILES, "run.json"} & {*names}:
    return {int(n): f"{folder}/{n}" for n in names if _VERSION.fullmatch(n)}
  last = os.path.basename(folder)
  return {int(last) if _VERSION.fullmatch(last) else 1: folder}


class Model:
  """A model, whose folder has versions. `load` reads a version's folder.

  The newest `num_versions` that can be loaded stay loaded. `versions` has them
  by number, `states` a pair (TF Serving's state, error) for every version.
  """

  def __init__(self, name: str, folder: str, num_versions: int, load: Callable):
    self.name = name
    self.versions: dict[int, Any] = {}
    self.states: dict[int, tuple[str, str]] = {}
    self.folder, self.num_versions, self._load = folder, num_versions, load
    self._retry: dict[int, float] = {}  # time of the next try, by version

  def find(self, number: int | None = None):
    """Returns a version's number and the version, by default the newest.

    Raises RestError: 503 if the version is loading or, without a number, none
    is loaded; 404 if the number is unknown or this version cannot be loaded.
    """
    states, versions = self.states, self.versions  # `_has` sets versions first
    if number is None and versions:
      number = max(versions)
    if number in versions:
      return number, versions[number]
    current = {s for n, (s, _) in states.items() if number in (None, n)}
    if not states or "LOADING" in current:
      raise RestError(f"model {self.name} is loading: try again later", 503)
    if number is None:
      raise RestError(f"model {self.name} {NOT_LOADED}", 503)
    raise RestError(f"model {self.name} has no version {number}", 404)

  def poll(self) -> None:
    try:
      folders = find_versions(self.folder)
    except Exception as error:  # depends on the file system
      message = f"{self.name}: {first_line(str(error))}"
      logging.log_every_n_seconds(logging.ERROR, message, 60)
      return
    # An older version takes the place of one that cannot be loaded.
    newest: list[int] = []
    for number in sorted(folders, reverse=True):
      if len(newest) < self.num_versions and self._has(number, folders[number]):
        newest.append(number)
    if newest:  # otherwise old versions answer
      for number in {*self.versions} - {*newest}:
        self._set_state(number, "UNLOADING")
        workers = self.versions[number].workers
        self.versions = {n: v for n, v in self.versions.items() if n != number}
        workers.close()
        gc.collect()  # frees the version's memory now
        self._set_state(number, "END")

  def _has(self, number, folder):
    """True if a version is loaded. Loads it, or tries again after a minute."""
    if number in self.versions:
      return True
    if time.monotonic() < self._retry.get(number, 0):
      return False
    self._set_state(number, "LOADING")
    try:
      version = self._load(folder)
    except Exception as error:  # depends on the library
      self._retry[number] = time.monotonic() + _RETRY_SECONDS
      message = first_line(str(error)) or type(error).__name__
      self._set_state(number, "END", message)
      if not isinstance(error, UserError | OSError):  # a defect
        logging.exception("%s, version %d", self.name, number)
      return False
    self.versions = {**self.versions, number: version}
    self._set_state(number, "AVAILABLE")
    return True

  def _set_state(self, number, state, error=""):
    self.states = {**self.states, number: (state, error)}
    log = logging.error if error else logging.info
    log("%s, version %d: %s %s", self.name, number, state, error)


@contextlib.contextmanager
def polled(models: Iterable[Model], seconds: float) -> Iterator[Thread]:
  """Yields a thread that polls models every `seconds`; 0: it polls once."""
  stopped = Event()

  def poll():
    while not stopped.is_set():
      for model in models:
        model.poll()
      stopped.wait(seconds or None)

  thread = Thread(target=poll, daemon=True)
  thread.start()
  try:
    yield thread
  finally:
    stopped.set()
