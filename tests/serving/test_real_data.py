"""All engines give equal answers on real development sets."""

import os
from collections import Counter
from functools import partial

import keras
import pytest

from data import vocab
from data.tokenization import FullTokenizer
from modeling import models
from serving import export, savedmodel
from serving.answers import TextConfig
from serving.export import ServedModel
from tasks.ner import answers as ner
from tasks.ner import examples as sentences
from tasks.squad import answers as squad
from tasks.squad import examples as questions
from tasks.squad.decoding import DecodingConfig
from tasks.squad.records import WindowConfig
from tests import shared, small_model
from tests.serving import test_engines
from tests.serving.tasks import TAGS, assert_same
from tests.shared import DATASETS

# Rows per data set; 0 means all.
ROWS = int(os.environ.get("BERT_DATASETS_ROWS", "20"))
T = 96
LENGTHS = vars(WindowConfig(T, doc_stride=32, max_query_length=24))
DECODING = vars(DecodingConfig(20, 30, version_2_with_negative=True))


def _questions():
  path = f"{DATASETS}/squad/dev-v2.0.open.json"
  rows = questions.read_examples([path])
  contexts = [" ".join(row.doc_tokens) for row in rows]
  return {"context": contexts, "question": [row.question for row in rows]}


def _sentences():
  path = f"{DATASETS}/wnut17/emerging.dev.conll"
  return {"tokens": [row.words for row in sentences.read_sentences(path)]}


SPANS = partial(
  squad.Answers, windows=LENGTHS, decoding=DECODING, dynamic_padding=True
)
# Columns, model, answers, labels.
CASES = {
  "WNUT-17": (_sentences, models.tagger, ner.Answers, TAGS),
  "SQuAD 2.0": (_questions, models.span_labeler, SPANS, ()),
}


def _vocabulary(columns, path):
  """Writes frequent words and all characters; returns their number."""
  texts = [str(text).lower() for column in columns for text in column]
  words = Counter(word for text in texts for word in text.split())
  letters = sorted({letter for word in words for letter in word})
  tokens = [*vocab.SPECIAL_TOKENS, *letters]
  tokens += [f"##{letter}" for letter in letters]
  tokens += [word for word, _ in words.most_common(2000) if len(word) > 1]
  vocab.save(tokens, path)
  return len(tokens)


@pytest.mark.slow
@shared.on_datasets
@pytest.mark.parametrize("name", CASES)
def test_all_engines_give_the_same_answers(name, tmp_path):
  read, make_model, make_answers, labels = CASES[name]
  columns = {k: v[: ROWS or None] for k, v in read().items()}
  words = tmp_path / "vocab.txt"
  size = _vocabulary(columns.values(), words)
  sizes = {"max_position_embeddings": T, "initializer_range": 0.3}
  keras.utils.set_random_seed(1)
  config = small_model.config(size, **sizes)
  model = make_model(config, len(labels)) if labels else make_model(config)
  answers = make_answers(TextConfig(FullTokenizer(words), T, labels or None))
  served = ServedModel(model, answers)
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
