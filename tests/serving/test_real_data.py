"""All engines give equal answers on real development sets."""

import os
from collections import Counter

import keras
import pytest

from data import vocab
from data.tokenization import FullTokenizer
from modeling import models
from serving import export, savedmodel
from serving.answers import TextConfig
from serving.export import ServedModel
from tasks.classification import answers as classification
from tasks.classification import named_tasks
from tasks.classification.examples import read_examples
from tasks.features import answers as features
from tasks.multiple_choice import answers as multiple_choice
from tasks.multiple_choice.examples import read_examples as read_choices
from tasks.ner import answers as ner
from tasks.ner.examples import read_sentences
from tasks.pretraining import answers as pretraining
from tasks.squad import answers as squad
from tasks.squad import examples
from tasks.squad.decoding import DecodingConfig
from tasks.squad.records import WindowConfig
from tests import shared, small_model
from tests.serving import test_engines
from tests.serving.tasks import assert_same
from tests.shared import DATASETS

# Rows per data set; 0 means all.
ROWS = int(os.environ.get("BERT_DATASETS_ROWS", "20"))
T = 96
TAGS = ("O", "B-X", "I-X")
GLUE = ["CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI"]


def _glue(task):
  rows = read_examples(task, f"{DATASETS}/glue_data/{task.name}", "dev")
  if not task.has_pairs:
    return {"text": [row.text_a for row in rows]}
  return {n: [getattr(row, n) for row in rows] for n in ("text_a", "text_b")}


def _sentences():
  rows = read_sentences(f"{DATASETS}/wnut17/emerging.dev.conll")
  return {"tokens": [row.words for row in rows]}


def _masked():
  rows = _glue(named_tasks.find("SST-2"))["text"]
  return {"text": [f"{row[: len(row) // 2]} [MASK] ." for row in rows]}


def _questions(version):
  rows = examples.read_examples([f"{DATASETS}/squad/dev-v{version}.open.json"])
  return {
    "context": [" ".join(row.doc_tokens) for row in rows],
    "question": [row.question for row in rows],
  }


def _choices():
  rows = read_choices(f"{DATASETS}/codah/swag_layout/val.csv")
  texts = {n: [getattr(row, n) for row in rows] for n in ("sent1", "sent2")}
  return texts | {"choices": [list(row.endings) for row in rows]}


def _squad(version, negative):
  lengths = vars(WindowConfig(T, doc_stride=32, max_query_length=24))
  decoding = vars(DecodingConfig(20, 30, version_2_with_negative=negative))
  return (
    lambda: _questions(version),
    models.span_labeler,
    lambda config: squad.Answers(config, lengths, decoding, True),
    None,
  )


def _classification(task):
  labels = task.labels or None
  return (
    lambda: _glue(task),
    lambda config: models.classifier(config, len(labels or [0])),
    lambda config: classification.Answers(config, task.has_pairs),
    labels,
  )


# Columns, model, answers, labels.
CASES = {
  **{name: _classification(named_tasks.find(name)) for name in GLUE},
  "WNUT-17": (
    _sentences,
    lambda config: models.tagger(config, len(TAGS)),
    ner.Answers,
    TAGS,
  ),
  "CODAH": (_choices, models.multiple_choice, multiple_choice.Answers, None),
  "SQuAD 1.1": _squad("1.1", negative=False),
  "SQuAD 2.0": _squad("2.0", negative=True),
  "masks": (
    _masked,
    models.pretrainer,
    lambda config: pretraining.Answers(config, 3),
    None,
  ),
  "vectors": (
    lambda: _glue(named_tasks.find("SST-2")),
    lambda config: models.layer_outputs(config, [-1]),
    lambda config: features.Answers(config, "mean"),
    None,
  ),
}


def _vocabulary(columns, path):
  """Writes frequent words and all characters; returns the vocabulary size."""
  texts = [str(text).lower() for column in columns for text in column]
  words = Counter(word for text in texts for word in text.split())
  letters = sorted({letter for word in words for letter in word})
  tokens = [vocab.PAD, vocab.UNK, vocab.CLS, vocab.SEP, vocab.MASK, *letters]
  tokens += [f"##{letter}" for letter in letters]
  tokens += [word for word, _ in words.most_common(2000) if len(word) > 1]
  vocab.save(tokens, path)
  return len(tokens)


@pytest.mark.slow
@shared.on_datasets
@pytest.mark.parametrize("name", CASES)
def test_all_engines_answer_alike(name, tmp_path):
  read, make_model, make_answers, labels = CASES[name]
  columns = {k: v[: ROWS or None] for k, v in read().items()}
  words = tmp_path / "vocab.txt"
  size = _vocabulary(columns.values(), words)
  config = small_model.config(
    size, max_position_embeddings=T, initializer_range=0.3
  )
  keras.utils.set_random_seed(1)
  answers = make_answers(TextConfig(FullTokenizer(words), T, labels))
  served = ServedModel(make_model(config), answers)
  folder = tmp_path / "1"
  export.save(str(folder), served, ["savedmodel", "tflite"])
  model = savedmodel.text_model(served)  # Keras
  rows = zip(*columns.values(), strict=True)
  expected = model([dict(zip(columns, row, strict=True)) for row in rows])
  with test_engines.serving(model, tmp_path) as url:
    for engine, predict in test_engines.predictors(folder, url).items():
      result = predict(**columns)
      for row, (answer, other) in enumerate(zip(result, expected, strict=True)):
        print(engine, row)  # shown when the comparison fails
        assert_same(answer, other)
