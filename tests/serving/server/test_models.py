"""Model versions: discovery, loading, replacement, retries."""

import re
import threading
import time
import weakref

import pytest
from absl import logging

from serving.server import RestError, models
from serving.server.models import Model
from storage import UserError
from tests.serving.server.stand_in import Version, wait_until


@pytest.fixture(name="folder")
def _folder(tmp_path):
  """A folder `mrpc` with versions 1, 9 and 10, and unrelated entries."""
  for name in ("1", "9", "0010", "11.unfinished", "2b", "-3", "9" * 40):
    (tmp_path / "mrpc" / name).mkdir(parents=True)
  return tmp_path / "mrpc"


def _model(folder, num_versions=1, load=Version):
  """Returns a model after the first poll."""
  model = Model("mrpc", str(folder), num_versions, load)
  model.poll()
  return model


def test_versions_are_exports_and_folders_with_numbers(folder):
  expected = {1: f"{folder}/1", 9: f"{folder}/9", 10: f"{folder}/0010"}
  assert models.find_versions(str(folder)) == expected
  exports = ("0010", "model_int8.tflite", 10), ("2b", "run.json", 1)
  for name, file, number in exports:
    (folder / name / file).touch()
    versions = models.find_versions(f"{folder}/{name}")
    assert versions == {number: f"{folder}/{name}"}


def test_a_model_has_the_name_of_its_flag_or_folder(folder, monkeypatch):
  (folder / "1" / "saved_model.pb").touch()
  monkeypatch.chdir(folder)
  for flag, expected in (
    (f"{folder}/", ("mrpc", f"{folder}")),
    (f"{folder}/1", ("mrpc", f"{folder}/1")),
    (f"other={folder}", ("other", f"{folder}")),
    ("1", ("1", "1")),
  ):
    assert models.split_name(flag) == expected


def test_a_name_that_a_url_cannot_contain_is_refused(folder):
  for name in ("a/b", "a:b", "..", "a b"):
    with pytest.raises(ValueError, match="has no name: give it one"):
      models.split_name(f"{name}={folder}")


def test_a_folder_without_versions_is_refused(folder):
  with pytest.raises(ValueError, match=r"mrpc/1 has no model and"):
    models.split_name(f"{folder}/1")


def _check_missing(model, number, status, message):
  with pytest.raises(RestError, match=re.escape(message)) as error:
    model.find(number)
  assert error.value.status == status


def test_a_version_has_the_state_loading_until_it_answers(folder):
  gate = threading.Event()

  def load(path):
    assert gate.wait(20)
    return Version(path)

  model = Model("mrpc", str(folder), 1, load)
  _check_missing(model, 10, 503, "model mrpc is loading: try again later")
  with models.polled([model], 0):
    wait_until(lambda: model.states)
    assert model.states == {10: ("LOADING", "")}
    for number in (None, 10):
      _check_missing(model, number, 503, "model mrpc is loading")
    _check_missing(model, 1, 404, "model mrpc has no version 1")
    gate.set()
    wait_until(lambda: model.states == {10: ("AVAILABLE", "")})


def test_a_model_whose_versions_all_fail_is_not_called_loading(folder, load):
  load.broken = {"0010", "9", "1"}
  model = _model(folder, load=load)
  _check_missing(model, None, 503, "mrpc could not be loaded: the server's log")
  _check_missing(model, 10, 404, "model mrpc has no version 10")


def test_a_version_answers_before_available_is_logged_and_until_it_closes(
  folder, monkeypatch
):
  model, steps = _model(folder, num_versions=2), []
  old = model.versions[9]  # numbers order the versions: 9, 10
  note = lambda *step: steps.append((*step, sorted(model.versions)))  # noqa: E731
  monkeypatch.setattr(models.logging, "info", lambda *args: note(*args[2:4]))
  monkeypatch.setattr(old.workers, "close", lambda: note("closed"))
  (folder / "12").mkdir()
  model.poll()
  assert steps == [
    (12, "LOADING", [9, 10]),
    (12, "AVAILABLE", [9, 10, 12]),
    (9, "UNLOADING", [9, 10, 12]),
    ("closed", [10, 12]),  # closed workers get no requests
    (9, "END", [10, 12]),
  ]
  assert (model.find()[0], model.states[9]) == (12, ("END", ""))


def test_the_memory_of_a_replaced_version_is_freed(folder):
  model = _model(folder)
  old = weakref.ref(model.find()[1])  # the version has reference cycles
  (folder / "12").mkdir()
  model.poll()
  assert old() is None


def test_an_emptied_or_missing_folder_keeps_the_loaded_versions(
  folder, caplog, monkeypatch
):
  # Other tests may have logged such a line less than a minute ago.
  monkeypatch.setattr(logging, "_log_timer_per_token", {})
  model = _model(folder)
  folder.rename(folder.with_name("away"))
  model.poll()
  model.poll()
  folder.mkdir()
  model.poll()
  assert sorted(model.versions) == [10]
  [line] = [r.message for r in caplog.records if r.levelname == "ERROR"]
  assert f"mrpc: [Errno 2] No such file or directory: '{folder}'" in line


@pytest.mark.parametrize(("seconds", "versions"), [(0.0, [10]), (0.01, [12])])
def test_a_folder_is_read_once_if_poll_seconds_is_0(folder, seconds, versions):
  model = Model("mrpc", str(folder), 1, Version)
  with models.polled([model], seconds) as thread:
    wait_until(lambda: model.versions)
    (folder / "12").mkdir()
    time.sleep(0.3)
    wait_until(lambda: sorted(model.versions) == versions)
  thread.join(10)
  assert not thread.is_alive()


ERRORS = [(UserError("x\ny"), "x", False), (MemoryError(), "MemoryError", True)]


@pytest.mark.parametrize(("error", "text", "has_traceback"), ERRORS)
def test_a_state_names_the_error_and_the_log_has_the_traceback_of_a_defect(
  folder, caplog, error, text, has_traceback
):
  def load(path):
    raise error

  assert _model(folder, load=load).states[10] == ("END", text)
  assert any(record.exc_info for record in caplog.records) == has_traceback


@pytest.fixture(name="load")
def _load():
  """Returns a loader of versions that fails for the names in `broken`."""

  def load(path):
    if path.rpartition("/")[2] in load.broken:
      raise OSError
    return Version(path)

  load.broken = set()
  return load


# Steps before each poll, the versions that are loaded after the poll, and the
# unloaded versions that have a state. "+12" makes the folder 12, "-12" removes
# it, "x12" breaks it, "mend" mends all folders, "later" lets a minute pass.
STORIES = {
  "the newest folder is removed": [("", [10], []), ("-0010", [9], [10])],
  "the newest version is broken for a while": [
    ("x12 +12", [10], [12]),
    ("mend", [10], [12]),  # the next attempt comes later
    ("later", [12], [10]),
  ],
  "an older version replaces broken ones": [("x0010 x9", [1], [9, 10])],
  "a folder without a version that can be loaded keeps the removed one": [
    ("x1 x9", [10], []),
    ("-0010", [10], [1, 9]),
  ],
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_model_keeps_the_newest_version_that_can_be_loaded(
  folder, load, monkeypatch, story
):
  model = Model("mrpc", str(folder), 1, load)
  later = time.monotonic() + 61
  for steps, loaded, others in story:
    for step in steps.split():
      match step[0], step[1:]:
        case "+", name:
          (folder / name).mkdir()
        case "-", name:
          (folder / name).rmdir()
        case "x", name:
          load.broken.add(name)
        case "m", _:
          load.broken.clear()
        case "l", _:
          monkeypatch.setattr(models.time, "monotonic", lambda: later)
    model.poll()
    assert sorted(model.versions) == loaded
    assert sorted(model.states.keys() - model.versions.keys()) == others


def test_a_broken_version_is_not_one_of_the_two_that_stay_loaded(folder, load):
  load.broken.add("0010")
  model = _model(folder, num_versions=2, load=load)
  assert sorted(model.versions) == [1, 9]
  (folder / "12").mkdir()
  model.poll()
  assert sorted(model.versions) == [9, 12]
  for name in ("9", "12"):
    (folder / name).rmdir()
  model.poll()
  assert sorted(model.versions) == [1]  # removed versions do not stay
