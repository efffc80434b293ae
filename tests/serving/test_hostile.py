"""Hostile texts: every task gives a finite answer."""

import numpy as np
import pytest
import tensorflow as tf

from tests.serving import tasks

HOSTILE = {
  "nothing": b"",
  "blanks": b" \t\r\n\x0b\x0c \xc2\xa0\xe2\x80\xa8 ",
  "NUL": b"\0",
  "NUL inside": b"a\0b \0 c",
  "what leaves nothing": "\u200b\ufffd\u0301".encode(),
  "bytes": bytes(range(256)),
  "half a character": b"a \xe4\xbd",
  "surrogates": b"\xed\xa0\x80\xed\xb0\x80",
  "a mask": b"[MASK]",
  "masks": b"[MASK]" * 2000,
  "special tokens": b"[CLS] [SEP] [PAD] [UNK] ##a",
  "a bar": b" ||| ",
  "bars": b"||| ||| ||| |||",
  "one word": b"a" * 10_000,
  "one mark": b"!" * 10_000,
  "one accent": "\u0301".encode() * 10_000,
  "a word of 1 MB": b"abcde" * 200_000,
  "long words of 1 MB": (b"abcde" * 1000 + b" ") * 200,
  "blanks of 1 MB": b" " * 1_000_000,
}
QUICK = ("classification of pairs", "tagging")
TRIED = [
  name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
  for name in tasks.NAMES
]
# Outputs with several equally good values: an answer may occur at several
# positions of a context, and two endings may be the same.
POSITIONS = ("start", "end", "best_start", "best_end", "starts", "ends")
EQUALLY_GOOD = {"questions": POSITIONS, "choices": ("choice",)}


def _inputs(task, texts):
  """Inputs of a task, with each text as each of its arguments and as all."""
  harmless = b"ab c"
  inputs = {}
  for number, (name, spec) in enumerate(task.texts.items()):
    # Each hostile text is once the only one.
    column = [
      text if position in (number, len(task.texts)) else harmless
      for text in texts
      for position in range(len(task.texts) + 1)
    ]
    if spec.shape.rank == 2:
      column = np.array([[text, harmless] for text in column], object)
      column = column.reshape(-1, 2)
    inputs[name] = tf.constant(column, tf.string)
  return inputs


def _ask(task, served, inputs):
  answers = served.functions["serving_default"](**inputs)
  return {name: value.numpy() for name, value in answers.items()}


def _row(inputs, row):
  return {name: value[row : row + 1] for name, value in inputs.items()}


@pytest.mark.parametrize("name", TRIED)
def test_every_text_has_an_answer_and_a_batch_does_not_change_it(
  every_task, name
):
  task, served = every_task[name]
  inputs = _inputs(task, HOSTILE.values())
  together = _ask(task, served, inputs)
  rows = len(next(iter(inputs.values())))
  for output, value in together.items():
    assert len(value) == rows, output
    if value.dtype != object:
      assert np.isfinite(value).all(), output
  for row in range(rows):
    for output, alone in _ask(task, served, _row(inputs, row)).items():
      if output in EQUALLY_GOOD.get(name, ()):
        continue
      inside = (row, *(slice(size) for size in alone.shape[1:]))
      result = together[output][inside]
      if alone.dtype == object:
        assert np.array_equal(result, alone[0]), (output, row)
      else:
        np.testing.assert_allclose(result, alone[0], atol=1e-4)


@pytest.mark.parametrize("name", TRIED)
def test_an_empty_batch_has_empty_answers(every_task, name):
  task, served = every_task[name]
  for value in _ask(task, served, _inputs(task, [])).values():
    assert len(value) == 0


def test_a_long_text_has_a_tag_for_every_word(every_task):
  task, served = every_task["tagging"]
  result = _ask(task, served, {"tokens": tf.constant(["abcd " * 50_000])})
  assert result["num_words"].tolist() == [50_000]
  assert all(result["tags"][0])
