"""Every task with a small model of its own.

Legend: T tokens.
"""

from data.tasks.squad_windows import Settings
from evaluation import squad
from modeling import feature_based, models
from modeling.config import BertConfig
from modeling.layer_outputs import layer_outputs, mean
from serving.choices import Choices
from serving.classification import Classification
from serving.masks import Masks
from serving.questions import Questions
from serving.tagging import Tagging
from serving.vectors import Vectors
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
  lengths = Settings(T, doc_stride=3, max_query_length=4)
  choice = squad.Settings(3, 5, version_2_with_negative=True)
  tags = ("O", "B-X", "I-X")
  return {
    "classification": (
      models.classifier(CONFIG, 2),
      Classification(tokenizer, T, LABELS, pairs=False),
    ),
    "classification of pairs": (
      models.classifier(CONFIG, 2),
      Classification(tokenizer, T, LABELS, pairs=True),
    ),
    "tagging": (models.tagger(CONFIG, 3), Tagging(tokenizer, T, tags)),
    "tagging by features": (
      feature_based.tagger(CONFIG, 3, "last", units=4, any_device=True),
      Tagging(tokenizer, T, tags),
    ),
    "questions": (
      models.span_labeler(CONFIG),
      Questions(tokenizer, lengths, choice),
    ),
    "choices": (models.multiple_choice(CONFIG), Choices(tokenizer, T)),
    "masks": (
      models.pretrainer(CONFIG, next_sentence=False),
      Masks(tokenizer, T, 3),
    ),
    "vectors": (
      layer_outputs(CONFIG, [0, -1]),
      Vectors(tokenizer, T, mean),
    ),
  }
