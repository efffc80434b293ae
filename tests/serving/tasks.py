"""A small model for every task, created on first use.

Legend: T tokens.
"""

import functools
import tempfile
from pathlib import Path

import keras
import numpy as np

from data import vocab
from data.tokenization import FullTokenizer
from modeling import models
from serving.answers import TextConfig
from serving.export import ServedModel
from tasks.classification import answers as classification
from tasks.classification.task import TextClassification
from tasks.features import answers as features
from tasks.features.task import FeatureExtraction
from tasks.multiple_choice import answers as multiple_choice
from tasks.multiple_choice.task import MultipleChoice
from tasks.ner import answers as ner
from tasks.pretraining import answers as pretraining
from tasks.pretraining.task import FillMask
from tasks.squad import answers as squad
from tasks.squad.answers import DecodingConfig
from tasks.squad.records import WindowConfig
from tests import programs, small_model
from tests.serving import stand_in
from tests.shared import slow

T = 12
LABELS = ("no", "yes")
TAGS = ("O", "B-X", "I-X")
CONFIG = small_model.narrow(
  len(stand_in.WORDS),
  intermediate_size=8,
  type_vocab_size=16,
  initializer_range=0.5,
  # Inference ignores these rates.
  hidden_dropout_prob=0.5,
  attention_probs_dropout_prob=0.5,
)
_LENGTHS = vars(WindowConfig(T, doc_stride=3, max_query_length=4))
_DECODING = vars(DecodingConfig(3, 5, True, export_top_k=2))


@functools.cache
def vocab_file():
  path = Path(tempfile.mkdtemp()) / "vocab.txt"
  vocab.save(stand_in.WORDS, path)
  return str(path)


def text_config(labels=None, length=T):
  return TextConfig(FullTokenizer(vocab_file()), length, labels)


def settings(program, folder, **changes):
  """Returns settings of a program: small batches, and output in a folder."""
  flags = {"output_dir": f"{folder}/out", "vocab_file": vocab_file()}
  flags |= {"max_seq_length": T, "pack_examples": True}
  flags |= {"eval_batch_size": 3, "predict_batch_size": 2}
  return programs.arguments(program, **flags | changes)


def _classifier(labels, *settings):
  model = models.classifier(CONFIG, len(labels or [0]))
  answers = classification.Answers(text_config(labels), *settings)
  return ServedModel(model, answers, TextClassification)


def _tagger(model):
  return ServedModel(model, ner.Answers(text_config(TAGS)))


def _questions(model, dynamic_padding=False):
  settings = (_LENGTHS, _DECODING, dynamic_padding)
  return ServedModel(model, squad.Answers(text_config(), *settings))


_MAKE = {
  "classification": lambda: _classifier(LABELS, False),
  "classification of pairs": lambda: _classifier(LABELS, True),
  "several labels": lambda: _classifier(LABELS, False, (0.4, 0.6)),
  "scores": lambda: _classifier(None, True),
  "tagging": lambda: _tagger(models.tagger(CONFIG, 3)),
  "tagging by features": lambda: _tagger(
    models.feature_based_tagger(CONFIG, 3, "last", 4, any_device=True)
  ),
  "questions": lambda: _questions(models.span_labeler(CONFIG)),
  "questions by three": lambda: _questions(
    models.ensemble(
      [models.span_labeler(CONFIG) for _ in range(3)], models.stack
    ),
    True,
  ),
  "choices": lambda: ServedModel(
    models.multiple_choice(CONFIG),
    multiple_choice.Answers(text_config()),
    MultipleChoice,
  ),
  "masks": lambda: ServedModel(
    models.pretrainer(CONFIG), pretraining.Answers(text_config(), 3), FillMask
  ),
  "vectors": lambda: ServedModel(
    models.layer_outputs(CONFIG, [0, -1]),
    features.Answers(text_config(), "mean"),
    FeatureExtraction,
  ),
}
NAMES = tuple(_MAKE)
# Tasks whose graph tokenizes texts.
IN_GRAPH = tuple(n for n in NAMES if not n.startswith(("tagging", "questions")))


def slow_but(quick, names=NAMES):
  """Returns test parameters, marking all names except `quick` as slow."""
  return [name if name in quick else slow(name) for name in names]


def make(name):
  keras.utils.set_random_seed(1)
  return _MAKE[name]()


class OnDemand(dict):
  """Caches `make(name)` by name."""

  def __init__(self, make):
    super().__init__()
    self._make = make

  def __missing__(self, name):
    self[name] = self._make(name)
    return self[name]


def make_examples(answers, texts):
  """Returns an example for each text, with other texts as further inputs."""
  names = [name for name in answers.inputs if name not in answers.optional]
  return [
    {
      name: [text, "ab", ""] if answers.inputs[name] else texts[i - n]
      for n, name in enumerate(names)
    }
    for i, text in enumerate(texts)
  ]


def columns(examples):
  """Returns lists of texts by input, the arguments of predictor.Predictor."""
  return {name: [e[name] for e in examples] for name in examples[0]}


def check_ensemble(model, shape, value):
  """Checks that `value(logits)` of an ensemble is the mean of its members."""
  ids = np.arange(np.prod(shape)).reshape(shape) % 9
  inputs = {"input_ids": ids, "input_mask": ids * 0 + 1, "segment_ids": ids * 0}
  together, first, second = (
    value(np.asarray(part(inputs)["logits"]))
    for part in (model, *model.members)
  )
  np.testing.assert_allclose(together, (first + second) / 2, rtol=1e-4)


def assert_same(result, expected, atol=1e-5):
  """Compares two answers, with a tolerance for numbers."""
  assert result.keys() == expected.keys()
  for name, value in expected.items():
    if name == "entities":
      for entity, other in zip(result[name], value, strict=True):
        assert_same(entity, other, atol)
    elif np.asarray(value).dtype.kind == "f":
      np.testing.assert_allclose(result[name], value, atol=atol)
    elif not (name in ("choice", "text") and _is_tie(expected, atol)):
      assert result[name] == value, name


def _is_tie(answer, atol):
  """Tells whether rounding decides which choice is the most probable."""
  *_, second, first = sorted(answer.get("probabilities", (0, 1)))
  return first - second < 2 * atol
