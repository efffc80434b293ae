"""Every task with a small model of its own.

Legend: T tokens.
"""

import numpy as np

from modeling import models
from modeling.config import BertConfig
from modeling.models import layer_outputs, mean_of_tokens
from tasks.classification.serving import TextClassification
from tasks.features.serving import FeatureExtraction
from tasks.multiple_choice.serving import MultipleChoice
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


def everything(tokenizer):
  """Pairs of a model and a task, by name."""
  lengths = WindowConfig(T, doc_stride=3, max_query_length=4)
  choice = DecodingConfig(3, 5, version_2_with_negative=True, export_top_k=2)
  tags = ("O", "B-X", "I-X")
  return {
    "classification": (
      models.classifier(CONFIG, 2),
      TextClassification(tokenizer, T, LABELS, pairs=False),
    ),
    "classification of pairs": (
      models.classifier(CONFIG, 2),
      TextClassification(tokenizer, T, LABELS, pairs=True),
    ),
    "tagging": (
      models.tagger(CONFIG, 3),
      TokenClassification(tokenizer, T, tags),
    ),
    "tagging by features": (
      models.feature_based_tagger(CONFIG, 3, "last", units=4, any_device=True),
      TokenClassification(tokenizer, T, tags),
    ),
    "questions": (
      models.span_labeler(CONFIG),
      QuestionAnswering(tokenizer, lengths, choice),
    ),
    "choices": (models.multiple_choice(CONFIG), MultipleChoice(tokenizer, T)),
    "masks": (
      models.pretrainer(CONFIG, next_sentence=False),
      FillMask(tokenizer, T, 3),
    ),
    "vectors": (
      layer_outputs(CONFIG, [0, -1]),
      FeatureExtraction(tokenizer, T, mean_of_tokens),
    ),
  }


def assert_same(result, expected):
  """Compares two answers: numbers within 1e-5, all else exactly."""
  assert result.keys() == expected.keys()
  for name, value in expected.items():
    if np.asarray(value).dtype.kind == "f":
      np.testing.assert_allclose(result[name], value, atol=1e-5)
    else:
      assert result[name] == value, name
