"""Version number 0 is valid, and not the newest by default."""

import asyncio
import json

import pytest

from serving.server import rest
from serving.server.app import App, Metrics
from serving.server.models import Model, NoVersion
from tests.serving.server.stand_in import SETTINGS, Version


@pytest.fixture(name="model")
def _model(tmp_path):
  """A model with versions 0 and 3."""
  for name in "03":
    (tmp_path / "toy" / name).mkdir(parents=True)
  model = Model("toy", str(tmp_path / "toy"), 2, Version)
  model.poll()
  return model


def _get(model, path):
  """Sends a GET request; returns the status and JSON."""
  app = App({"toy": model}, Metrics(), SETTINGS)
  scope = {"path": path, "raw_path": path.encode(), "method": "GET"}
  sent = []

  async def send(message):
    sent.append(message)

  asyncio.run(app(scope, None, send))
  return sent[0]["status"], json.loads(sent[1]["body"])


def test_each_version_has_its_number(model):
  assert [model.find(number)[0] for number in (None, 0, 3)] == [3, 0, 3]
  assert model.find(0)[1] is model.versions[0]
  assert rest.version_number("0", None) == 0
  assert rest.version_number("000", None) == 0
  assert rest.version_number(None, None) is None


def test_the_status_is_that_of_the_number(model):
  for path, numbers in (("", "30"), ("/versions/0", "0"), ("/versions/3", "3")):
    status, answer = _get(model, f"/v1/models/toy{path}")
    states = answer["model_version_status"]
    assert (status, [s["version"] for s in states]) == (200, [*numbers])
  status, answer = _get(model, "/v1/models/toy/versions/0/metadata")
  assert (status, answer["model_spec"]["version"]) == (200, "0")


def test_a_version_zero_that_is_not_there_is_not_another_one(model):
  model.versions = {3: model.versions[3]}
  model.states = {3: ("AVAILABLE", "")}
  assert _get(model, "/v1/models/toy/versions/0")[0] == 404
  for versions in (model.versions, {}):  # the call does not wait
    model.versions = versions
    with pytest.raises(NoVersion, match=r"toy has no version 0\b"):
      model.find(0)


def test_the_only_version_may_be_zero(tmp_path):
  (tmp_path / "toy" / "0").mkdir(parents=True)
  model = Model("toy", str(tmp_path / "toy"), 1, Version)
  model.poll()
  assert model.find()[0] == 0
  assert _get(model, "/v1/models/toy/metadata")[0] == 200
  loaded = model.versions[0]
  model.poll()
  assert model.versions[0] is loaded
