"""Settings of run_ner.py."""

from dataclasses import dataclass

from cli.settings import common, flag
from modeling.config import FEATURE_LAYERS
from runs.settings import Packing
from runs.task_settings import EvaluatedFineTuning
from tasks.ner import tagging


@dataclass(frozen=True, kw_only=True)
class Settings(EvaluatedFineTuning, Packing):
  """Flags of run_ner.py."""

  not_packed = ("document_context", "feature_based")

  train_file: str | None = common(None, "CoNLL file to train on.")
  dev_file: str | None = common(
    None, "CoNLL file to evaluate on.", training=False
  )
  test_file: str | None = common(
    None, "CoNLL file to tag; tags are optional.", training=False
  )
  word_column: int = flag(0, "Column of the words.")
  tag_column: int = flag(-1, "Column of the tags; -1 for the last.")
  tag_scheme: str | None = flag(
    None, "Scheme to which tags are converted.", choices=tagging.TARGETS
  )
  max_seq_length: int = common(128, "Maximum number of tokens.", minimum=3)
  document_context: bool = flag(
    False, "Add the document's text, up to --max_seq_length."
  )
  feature_based: bool = flag(False, "Train an LSTM on a frozen BERT.")
  feature_layers: str = flag(
    "concat_last_four", "The LSTM's input.", choices=tuple(FEATURE_LAYERS)
  )
  lstm_units: int = flag(768, "LSTM units in each direction.", minimum=1)
