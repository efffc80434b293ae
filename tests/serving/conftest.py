"""A small vocabulary, its two tokenizers, and what is served with it."""

import keras
import pytest

from data import vocab
from data.tokenization import FullTokenizer
from data.tokenization_ops import GraphTokenizer
from tests.serving import stand_in, tasks
from training import export


@pytest.fixture(name="tokenizer", scope="session")
def _tokenizer(tmp_path_factory):
  path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
  vocab.save(stand_in.WORDS, path)
  return FullTokenizer(path)


@pytest.fixture(name="graph_tokenizer", scope="session")
def _graph_tokenizer():
  return GraphTokenizer(stand_in.VOCABULARY)


@pytest.fixture(name="every_task", scope="session")
def _every_task(graph_tokenizer):
  """Pairs of a task and its export.Exported, by name."""
  keras.utils.set_random_seed(1)
  return {
    name: (task, export.Exported(model, task))
    for name, (model, task) in tasks.everything(graph_tokenizer).items()
  }
