"""Model versions: discovery, loading, replacement, retries."""

import re
import threading
import time
import weakref

import pytest

from serving.server import RestError, models
from serving.server.app import Metrics
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


def test_versions_are_folders_with_numbers(folder):
  expected = {1: f"{folder}/1", 9: f"{folder}/9", 10: f"{folder}/0010"}
  assert models.find_versions(str(folder)) == expected


@pytest.mark.parametrize(
  "file", ["saved_model.pb", "model_int8.tflite", "run.json"]
)
def test_a_folder_with_an_export_is_a_version(folder, file):
  for path, number in ((folder / "0010", 10), (folder / "2b", 1)):
    (path / file).touch()
    assert models.find_versions(str(path)) == {number: str(path)}


def test_a_model_has_the_name_of_its_flag_or_folder(folder, monkeypatch):
  (folder / "1" / "saved_model.pb").touch()
  monkeypatch.chdir(folder)
  for name in ("date=1", "x"):
    (folder / name / "1").mkdir(parents=True)
  for flag, expected in (
    (f"{folder}", ("mrpc", f"{folder}")),
    (f"{folder}/", ("mrpc", f"{folder}")),
    (f"{folder}/1", ("mrpc", f"{folder}/1")),
    (f"other={folder}", ("other", f"{folder}")),
    (f"other={folder}/1", ("other", f"{folder}/1")),
    (f"other={folder}/date=1", ("other", f"{folder}/date=1")),
    (f"{folder}/x//", ("x", f"{folder}/x")),
    ("1", ("1", "1")),
  ):
    assert models.split_name(flag) == expected


@pytest.mark.parametrize("name", ["a/b", "a:b", "..", " ", "a b"])
def test_a_name_that_no_url_can_have_is_refused(folder, name):
  with pytest.raises(ValueError, match="has no name: give it one"):
    models.split_name(f"{name}={folder}")


def test_a_folder_without_versions_is_refused(folder):
  with pytest.raises(ValueError, match=r"mrpc/1 has no model and"):
    models.split_name(f"{folder}/1")
  with pytest.raises(FileNotFoundError, match=f"no folder {folder}/none"):
    models.split_name(f"{folder}/none")


def test_the_newest_version_is_loaded(folder):
  model = Model("mrpc", str(folder), 1, Version)
  for number in (None, 10):
    _check_missing(model, number, 503, "model mrpc is loading: try again later")
  model.poll()
  number, version = model.find()
  assert (number, version.folder) == (10, f"{folder}/0010")
  assert model.states == {10: ("AVAILABLE", "")}
  _check_missing(model, 1, 404, "model mrpc has no version 1")


def _check_missing(model, number, status, message):
  with pytest.raises(RestError, match=re.escape(message)) as error:
    model.find(number)
  assert error.value.status == status


def test_versions_have_the_states_start_and_loading_until_they_answer(folder):
  gate = threading.Event()

  def load(path):
    assert gate.wait(20)
    return Version(path)

  first, second = (Model("mrpc", str(folder), 2, load) for _ in range(2))
  with models.polled([first, second], 0):
    assert second.states == {9: ("START", ""), 10: ("START", "")}
    wait_until(lambda: first.states[9][0] != "START")
    assert first.states == {9: ("LOADING", ""), 10: ("START", "")}
    for model in (first, second):
      for number in (None, 9, 10):
        _check_missing(model, number, 503, "model mrpc is loading")
      _check_missing(model, 1, 404, "model mrpc has no version 1")
    gate.set()
    wait_until(lambda: second.states.get(10) == ("AVAILABLE", ""))
  with models.polled([second], 0):
    pass
  assert {*second.states.values()} == {("AVAILABLE", "")}


def test_a_model_whose_versions_all_fail_is_not_called_loading(folder, load):
  load.broken = {"0010", "9", "1"}
  model = _model(folder, load=load)
  _check_missing(model, None, 503, "mrpc could not be loaded: the server's log")
  _check_missing(model, 10, 404, "model mrpc has no version 10")


def test_a_version_answers_before_it_is_called_available_and_until_it_ends(
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


def test_the_memory_of_a_replaced_version_is_free(folder):
  model = _model(folder)
  old = weakref.ref(model.find()[1])  # the version has reference cycles
  (folder / "12").mkdir()
  model.poll()
  assert old() is None


def test_removing_the_newest_folder_brings_the_older_version_back(folder):
  model = _model(folder)
  (folder / "0010").rmdir()
  model.poll()
  assert sorted(model.versions) == [9]


def test_an_empty_or_missing_folder_changes_nothing(folder, caplog):
  model = _model(folder)
  folder.rename(folder.with_name("away"))
  model.poll()
  model.poll()
  assert len([r for r in caplog.records if r.levelname == "ERROR"]) == 1
  folder.mkdir()
  model.poll()
  assert sorted(model.versions) == [10]
  folder.rename(folder.with_name("again"))
  model.poll()
  assert len([r for r in caplog.records if r.levelname == "ERROR"]) == 2


@pytest.mark.parametrize(("seconds", "versions"), [(0.0, [10]), (0.01, [12])])
def test_a_folder_is_polled_only_once_if_poll_seconds_is_0(
  folder, seconds, versions
):
  model = Model("mrpc", str(folder), 1, Version)
  with models.polled([model], seconds) as thread:
    wait_until(lambda: model.versions)
    (folder / "12").mkdir()
    time.sleep(0.3)
    wait_until(lambda: sorted(model.versions) == versions)
  thread.join(10)
  assert not thread.is_alive()


@pytest.mark.parametrize(
  ("error", "has_traceback"),
  [(KeyError("x"), True), (UserError("x"), False), (OSError("x"), False)],
)
def test_only_a_defect_in_loading_has_a_traceback_in_the_log(
  folder, caplog, error, has_traceback
):
  def load(path):
    raise error

  _model(folder, load=load)
  assert any(record.exc_info for record in caplog.records) == has_traceback


def test_the_state_has_the_class_of_an_error_without_a_message(folder):
  def load(path):
    raise MemoryError

  assert _model(folder, load=load).states[10] == ("END", "MemoryError")


@pytest.fixture(name="load")
def _load():
  """Loads versions; those whose names are in `broken` cannot be loaded."""

  def load(path):
    if path.rpartition("/")[2] in load.broken:
      raise OSError(f"cannot read {path}\nand more")
    return Version(path)

  load.broken = set()
  return load


@pytest.fixture(name="after_a_minute")
def _after_a_minute(monkeypatch):
  later = time.monotonic() + 61
  return lambda: monkeypatch.setattr(models.time, "monotonic", lambda: later)


def test_the_old_version_answers_until_the_new_one_can(
  folder, load, after_a_minute
):
  load.broken.add("12")
  model = _model(folder, load=load)
  (folder / "12").mkdir()
  model.poll()
  assert sorted(model.versions) == [10]
  assert model.states[12] == ("END", f"cannot read {folder}/12")
  load.broken.clear()
  model.poll()
  assert sorted(model.versions) == [10]  # the next attempt comes later
  after_a_minute()
  model.poll()
  assert sorted(model.versions) == [12]


def test_an_older_version_is_loaded_if_the_newest_cannot_be(
  folder, load, after_a_minute
):
  load.broken = {"0010", "9"}
  model = _model(folder, load=load)  # after a server restart
  assert sorted(model.versions) == [1]
  assert [model.states[n][0] for n in (10, 9)] == ["END", "END"]
  model.poll()
  assert sorted(model.versions) == [1]
  load.broken.clear()
  after_a_minute()
  model.poll()
  assert sorted(model.versions) == [10]


def test_metrics_sum_all_versions_and_have_the_newest_number(folder):
  model = _model(folder, num_versions=2)
  for number, queued in ((9, 2), (10, 3)):
    model.versions[number].workers.queued = queued
  text = Metrics().text({"mrpc": model}).decode()
  assert 'serving_version{model="mrpc"} 10.0' in text
  assert 'serving_queue_texts{model="mrpc"} 5.0' in text


def test_a_version_that_fails_does_not_delay_the_next_one(folder, load):
  load.broken.add("12")
  model = _model(folder, load=load)
  for name in ("12", "13"):
    (folder / name).mkdir()
    model.poll()
  assert sorted(model.versions) == [13]


def test_a_broken_version_that_was_removed_is_forgotten(folder):
  broken = {f"{folder}/12"}

  def load(path):
    if path in broken:
      raise OSError
    return Version(path)

  model = _model(folder, load=load)
  (folder / "12").mkdir()
  model.poll()
  assert sorted(model.states) == [10, 12]
  (folder / "12").rmdir()
  model.poll()
  assert sorted(model.states) == [10]
  broken.clear()
  (folder / "12").mkdir()  # a new folder does not wait for a retry
  model.poll()
  assert sorted(model.versions) == [12]


def test_version_zero_is_a_version_but_not_the_newest(tmp_path):
  (tmp_path / "0").mkdir()
  model = _model(tmp_path, 2)
  loaded = model.versions[0]
  assert model.find() == model.find(0) == (0, loaded)
  (tmp_path / "3").mkdir()
  model.poll()
  assert [model.find(number)[0] for number in (None, 0, 3)] == [3, 0, 3]
  assert model.versions[0] is loaded
  model.states = {3: ("AVAILABLE", "")}
  for versions in ({3: model.versions[3]}, {}):  # `poll` may unload meanwhile
    model.versions = versions
    with pytest.raises(RestError, match=r"mrpc has no version 0\b"):
      model.find(0)
