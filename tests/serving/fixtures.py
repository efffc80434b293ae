"""A small vocabulary, its two tokenizers, and exports with it."""

import pytest

from data import vocab
from data.tokenization import FullTokenizer
from data.tokenization_ops import GraphTokenizer
from serving import export
from tests.serving import stand_in, tasks


@pytest.fixture(name="tokenizer", scope="session")
def tokenizer_fixture(tmp_path_factory):
  path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
  vocab.save(stand_in.WORDS, path)
  return FullTokenizer(path)


@pytest.fixture(name="graph_tokenizer", scope="session")
def graph_tokenizer_fixture():
  return GraphTokenizer(stand_in.VOCABULARY)


@pytest.fixture(name="every_task", scope="session")
def every_task_fixture(graph_tokenizer):
  """Pairs of a task and its export.Exported, by name."""
  return tasks.Everything(
    graph_tokenizer, lambda model, task: (task, export.Exported(model, task))
  )
