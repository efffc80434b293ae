"""The role of a process in a cluster, from TF_CONFIG."""

import json
import re

import pytest

from training import processes

WORKERS = {"worker": ["a:1", "b:1"]}
CHIEF = {"chief": ["a:1"], "worker": ["b:1"]}


@pytest.mark.parametrize(
  ("config", "is_chief"),
  [
    (None, True),
    ({}, True),
    ({"cluster": WORKERS, "task": {"type": "worker", "index": 0}}, True),
    ({"cluster": WORKERS, "task": {"type": "worker", "index": 1}}, False),
    ({"cluster": CHIEF, "task": {"type": "worker", "index": 0}}, False),
    ({"cluster": CHIEF, "task": {"type": "chief", "index": 0}}, True),
  ],
)
def test_one_process_writes(monkeypatch, config, is_chief):
  if config is None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
  else:
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
  assert processes.is_chief() == is_chief


@pytest.mark.parametrize(
  ("cluster", "expected"),
  [({}, False), ({"worker": ["a:1"]}, False), (WORKERS, True), (CHIEF, True)],
)
def test_a_cluster_of_one_has_no_others(monkeypatch, cluster, expected):
  task = {"type": "worker", "index": 0}
  config = {"cluster": cluster, "task": task}
  monkeypatch.setenv("TF_CONFIG", json.dumps(config))
  assert processes.has_others() == expected


def test_a_broken_tf_config_is_named(monkeypatch):
  first = '"task": {"type": "worker", "index": 0}'
  for text, message in (
    ("{cluster", "is no JSON"),
    ("[]", "is no object of cluster, which lists hosts"),
    ('{"cluster": ["a:1", "b:1"]}', "is no object"),
    (f'{{"cluster": {{"worker": "a:1"}}, {first}}}', "is no object"),
    ('{"task": 0}', "is no object"),
    ('{"cluster": null}', "is no object"),
    ('{"cluster": {"worker": ["a:1", "b:1"]}}', "is no object"),
    (f'{{"cluster": {{"chief": ["a:1"]}}, {first}}}', "is no object"),
    (f'{{"cluster": {{"worker": []}}, {first}}}', "is no object"),
  ):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=re.escape(f"={text} {message}")):
      processes.is_chief()
