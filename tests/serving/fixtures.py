"""Small exports of every task."""

import pytest

from data.tokenization import FullTokenizer
from serving import export
from tests.serving import tasks


@pytest.fixture(name="tokenizer", scope="session")
def tokenizer_fixture():
  return FullTokenizer(tasks.vocab_file())


@pytest.fixture(name="graph_tokenizer", scope="session")
def graph_tokenizer_fixture(tokenizer):
  return tokenizer.in_graph()


@pytest.fixture(name="every_task", scope="session")
def every_task_fixture():
  """Returns each task's export.ServedModel by name."""
  return tasks.OnDemand(tasks.make)


@pytest.fixture(name="exported", scope="session")
def exported_fixture(every_task):
  """Returns the functions of each task's SavedModel by name."""
  return tasks.OnDemand(lambda name: export.Exported(every_task[name]))


@pytest.fixture(name="folders", scope="session")
def folders_fixture(every_task, tmp_path_factory):
  """Returns folders with SavedModel and LiteRT exports by task name."""

  def save(name):
    folder = tmp_path_factory.mktemp("exports") / "1"
    export.save(str(folder), every_task[name], ["savedmodel", "tflite"])
    return folder

  return tasks.OnDemand(save)
