"""Every task with a small model of its own, made when it is asked for.

Legend: T tokens.
"""

import keras
import numpy as np

from modeling import models
from modeling.config import BertConfig
from modeling.models import layer_outputs
from tasks.classification.task import TextClassification
from tasks.features.task import FeatureExtraction
from tasks.multiple_choice.task import MultipleChoice
from tasks.ner.serving import TokenClassification
from tasks.pretraining.serving import FillMask
from tasks.squad.decoding import DecodingConfig
from tasks.squad.records import WindowConfig
from tasks.squad.serving import QuestionAnswering
from tests.serving import stand_in

T = 12
LABELS = ("no", "yes")
CONFIG = BertConfig(
  vocab_size=len(stand_in.WORDS),
  hidden_size=8,
  num_hidden_layers=1,
  num_attention_heads=2,
  intermediate_size=8,
  max_position_embeddings=T,
  type_vocab_size=2,
  initializer_range=0.5,
)


TAGS = ("O", "B-X", "I-X")
_LENGTHS = WindowConfig(T, doc_stride=3, max_query_length=4)
_CHOICE = DecodingConfig(3, 5, version_2_with_negative=True, export_top_k=2)
# Functions that make a model, and of a tokenizer its task.
_MAKE = {
  "classification": (
    lambda: models.classifier(CONFIG, 2),
    lambda words: TextClassification(words, T, LABELS, pairs=False),
  ),
  "classification of pairs": (
    lambda: models.classifier(CONFIG, 2),
    lambda words: TextClassification(words, T, LABELS, pairs=True),
  ),
  "tagging": (
    lambda: models.tagger(CONFIG, 3),
    lambda words: TokenClassification(words, T, TAGS),
  ),
  "tagging by features": (
    lambda: models.feature_based_tagger(CONFIG, 3, "last", 4, any_device=True),
    lambda words: TokenClassification(words, T, TAGS),
  ),
  "questions": (
    lambda: models.span_labeler(CONFIG),
    lambda words: QuestionAnswering(words, _LENGTHS, _CHOICE),
  ),
  "questions by three": (
    lambda: models.ensemble(
      lambda: models.span_labeler(CONFIG), 3, models.stack
    ),
    lambda words: QuestionAnswering(words, _LENGTHS, _CHOICE),
  ),
  "choices": (
    lambda: models.multiple_choice(CONFIG),
    lambda words: MultipleChoice(words, T),
  ),
  "masks": (
    lambda: models.pretrainer(CONFIG, next_sentence=False),
    lambda words: FillMask(words, T, 3),
  ),
  "vectors": (
    lambda: layer_outputs(CONFIG, [0, -1]),
    lambda words: FeatureExtraction(words, T, "mean"),
  ),
}
NAMES = tuple(_MAKE)


class Everything(dict):
  """Results of `finish(model, task)` by task, computed on first use."""

  def __init__(self, tokenizer, finish=lambda *pair: pair):
    super().__init__()
    self._tokenizer, self._finish = tokenizer, finish

  def __missing__(self, name):
    keras.utils.set_random_seed(1)
    make_model, make_task = _MAKE[name]
    self[name] = self._finish(make_model(), make_task(self._tokenizer))
    return self[name]


def assert_same(result, expected):
  """Compares two answers: numbers within 1e-5, all else exactly."""
  assert result.keys() == expected.keys()
  for name, value in expected.items():
    if np.asarray(value).dtype.kind == "f":
      np.testing.assert_allclose(result[name], value, atol=1e-5)
    else:
      assert result[name] == value, name
