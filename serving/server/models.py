"""Models by name and their versions, loaded as TF Serving does."""

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
from storage import UserError, files, setting

_VERSION = re.compile("[0-9]{1,18}")
_RETRY_SECONDS = 60  # as TF Serving
NOT_LOADED = "could not be loaded: the server's log says why"


class NotLoaded(Exception):
  """No version of a model can answer now."""


class NoVersion(Exception):
  """A model has no version of a number."""


def split_name(text: str) -> tuple[str, str]:
  """Name and folder of a model, given as NAME=FOLDER or FOLDER.

  Raises FileNotFoundError, or ValueError without a model or a name for a URL.
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
      f"{given}: in {folder} is no model, nor a folder with a number: "
      "name an export, the folder around it, or the folder of a training"
    )
  return name, folder


def find_versions(folder: str) -> dict[int, str]:
  """Folders by version; a model has the number of its name, else 1."""
  names = [name.rstrip("/") for name in files.list_folder(folder)]
  if not {*FILES, "run.json"} & {*names}:
    return {int(n): f"{folder}/{n}" for n in names if _VERSION.fullmatch(n)}
  last = os.path.basename(folder)
  return {int(last) if _VERSION.fullmatch(last) else 1: folder}


class Model:
  """A model and its versions, loaded by `load` from a folder.

  `folder` is that of a model, or contains numbered ones, of which the
  `num_versions` newest are kept. `versions` has the loaded ones by number,
  `states` (TF Serving's name of the state, error) of all.
  """

  def __init__(self, name: str, folder: str, num_versions: int, load: Callable):
    self.name = name
    self.versions: dict[int, Any] = {}
    self.states: dict[int, tuple[str, str]] = {}
    self._folder, self._num_versions, self._load = folder, num_versions, load
    self._retry: dict[int, float] = {}  # by version that could not be loaded
    self._folder_error = ""  # of the last poll

  def find(self, number: int | None = None):
    """Number and version, by default the newest; NotLoaded, NoVersion."""
    states, versions = self.states, self.versions  # in this order
    if number is None and versions:
      number = max(versions)
    if number in versions:
      return number, versions[number]
    names = {s for n, (s, _) in states.items() if number in (None, n)}
    if not states or names & {"START", "LOADING"}:
      raise NotLoaded(f"model {self.name} is loading: try again later")
    if number is None:
      raise NotLoaded(f"model {self.name} {NOT_LOADED}")
    raise NoVersion(f"model {self.name} has no version {number}")

  def announce(self) -> None:
    """Gives the versions that `poll` will load the state START."""
    with contextlib.suppress(Exception):  # `poll` logs it
      numbers = sorted(find_versions(self._folder))[-self._num_versions :]
      self.states = dict.fromkeys(numbers, ("START", "")) | self.states

  def poll(self) -> None:
    """Loads and unloads versions by what is in the folder now."""
    try:
      folders = find_versions(self._folder)
    except Exception as error:  # of any file system
      message = first_line(str(error)) or type(error).__name__
      if message != self._folder_error:  # once, not at each poll
        logging.error("%s: %s", self.name, message)
      self._folder_error = message
      return
    self._folder_error = ""
    order = sorted(folders, reverse=True)
    newest = {*order[: self._num_versions]}
    for number in sorted(newest) + order[self._num_versions :]:
      # An older one, if none of the newest can be loaded.
      is_wanted = number in newest or not self.versions
      is_due = time.monotonic() >= self._retry.get(number, 0)
      if number not in self.versions and is_wanted and is_due:
        self._add(number, folders[number])
    if newest & {*self.versions}:  # else the old ones still answer
      for number in {*self.versions} - newest:
        self._remove(number)

  def _add(self, number, folder):
    self._set_state(number, "LOADING")
    try:
      version = self._load(folder)
    except Exception as error:  # of any library
      self._retry[number] = time.monotonic() + _RETRY_SECONDS
      message = first_line(str(error)) or type(error).__name__
      self._set_state(number, "END", message)
      return
    self.versions = {**self.versions, number: version}
    self._set_state(number, "AVAILABLE")

  def _remove(self, number):
    self._set_state(number, "UNLOADING")
    workers = self.versions[number].workers
    self.versions = {n: v for n, v in self.versions.items() if n != number}
    workers.close()
    gc.collect()  # of the version, as nothing refers to it
    self._set_state(number, "END")

  def _set_state(self, number, state, error=""):
    self.states = {**self.states, number: (state, error)}
    log = logging.error if error else logging.info
    log("%s, version %d: %s %s", self.name, number, state, error)


@contextlib.contextmanager
def polled(models: Iterable[Model], seconds: float) -> Iterator[Thread]:
  """Context in which a thread, its value, keeps models up to date.

  It polls them every `seconds`; with 0, as in TF Serving, only once.
  """
  stopped = Event()
  for model in models:
    model.announce()

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
