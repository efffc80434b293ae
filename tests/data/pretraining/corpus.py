"""Random documents, also as text for create_pretraining_data.py."""

from functools import partial
from random import Random

from data.features import Masking
from data.pretraining.instances import BuildConfig, InstanceConfig
from data.tokenization import FullTokenizer
from storage import Progress
from tests.parity.golden_files import GOLDEN

VOCAB_FILE = str(GOLDEN / "vocab.txt")
MASKING = Masking(5)
SILENT = partial(Progress, "", 0, "", log=lambda text: None)
_WORDS = ["The", "bank", "river", "runs", "sees", "old", "new", "unaffable"]


def build_config(masking=MASKING, seed=1, dupe_factor=1, **changes):
  """Returns a configuration for rows of 32 tokens of the golden vocabulary."""
  settings = InstanceConfig(32, masking, dupe_factor=dupe_factor)
  return BuildConfig(FullTokenizer(VOCAB_FILE), settings, seed, **changes)


def random_documents(number: int, seed: int = 1) -> list[list[str]]:
  """Returns documents of two to nine sentences each."""
  rng = Random(seed)
  return [
    [
      " ".join(rng.choices(_WORDS, k=rng.randint(3, 20))).capitalize() + "."
      for _ in range(rng.randint(2, 9))
    ]
    for _ in range(number)
  ]


def as_text(documents: list[list[str]]) -> str:
  """Returns a line for each sentence, and a blank line after each document."""
  return "".join("\n".join([*document, "", ""]) for document in documents)


def random_text(number: int, seed: int = 1) -> str:
  """Returns the text of `random_documents`."""
  return as_text(random_documents(number, seed))
