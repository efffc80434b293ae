"""Hostile texts give finite answers for every task."""

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from serving import savedmodel
from tests.serving import tasks

HOSTILE = {
  "nothing": b"",
  "blanks": b" \t\r\n\x0b\x0c \xc2\xa0\xe2\x80\xa8 ",
  "NUL": b"a\0b \0 c",
  "characters that are removed": "\u200b\ufffd\u0301".encode(),
  "bytes": bytes(range(256)),
  "surrogates": b"\xed\xa0\x80\xed\xb0\x80",
  "masks": b"[MASK]" * 2000,
  "special tokens": b"[CLS] [SEP] [PAD] [UNK] ##a",
  "one mark": b"!" * 10_000,
  "a word of 1 MB": b"abcde" * 200_000,
  "long words of 1 MB": (b"abcde" * 1000 + b" ") * 200,
}
QUICK = ("classification of pairs", "tagging")
# Outputs that may have ties: two endings can be equal.
EQUALLY_GOOD = {"choices": ("choice",)}


def _examples(answers, texts, other):
  """Yields examples with each text in one input at a time, then in all."""
  names = list(answers.inputs)
  for text, hostile in itertools.product(texts, [*([n] for n in names), names]):
    row = {name: text if name in hostile else other for name in names}
    yield {n: [t, other] if answers.inputs[n] else t for n, t in row.items()}


@pytest.mark.parametrize("name", tasks.slow_but(QUICK))
def test_every_text_has_the_same_answer_in_any_batch(every_task, name):
  model = savedmodel.text_model(every_task[name])
  # The server decodes the texts of a request like this.
  texts = [text.decode("utf-8", "replace") for text in HOSTILE.values()]
  examples = [*_examples(model.answers, texts, "ab c")]
  for example, answer in zip(examples, model(examples), strict=True):
    json.dumps(answer, allow_nan=False)  # raises for NaN and infinity
    [alone] = model([example])
    for output in EQUALLY_GOOD.get(name, ()):
      answer[output] = alone[output]
    tasks.assert_same(answer, alone, 1e-4)
  assert model([]) == []


@pytest.mark.parametrize("name", tasks.slow_but(QUICK, tasks.IN_GRAPH))
def test_the_graph_has_an_answer_for_any_bytes(every_task, exported, name):
  answers = every_task[name].answers
  examples = [*_examples(answers, HOSTILE.values(), b"ab c")]
  texts = tasks.columns(examples)
  names = answers.inputs.keys() - answers.optional
  inputs = {name: tf.constant(texts[name], tf.string) for name in names}
  outputs = exported[name].functions["serving_default"](**inputs)
  for output, value in outputs.items():
    assert len(value) == len(examples), output
    if value.dtype != tf.string:
      assert np.isfinite(value).all(), output
