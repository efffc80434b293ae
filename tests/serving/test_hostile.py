"""Texts that nobody should send: every task has an answer, and a sane one."""

import numpy as np
import pytest
import tensorflow as tf

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
NAMES = (
  "classification",
  "classification of pairs",
  "tagging",
  "tagging by features",
  "questions",
  "choices",
  "masks",
  "vectors",
)
# Where a context repeats itself, an answer may stand in several places; and of
# two endings that are the same, either may be chosen.
EQUALLY_GOOD = {"questions": ("begin", "end"), "choices": ("choice",)}


def _inputs(task, texts):
  """What a task takes, with a text in every place that there is."""
  harmless = b"ab c"
  given = {}
  for number, (name, spec) in enumerate(task.texts.items()):
    # Places of other texts: each hostile one stands alone once.
    column = [
      text if place in (number, len(task.texts)) else harmless
      for text in texts
      for place in range(len(task.texts) + 1)
    ]
    if spec.shape.rank == 2:
      column = np.array([[text, harmless] for text in column], object)
      column = column.reshape(-1, 2)
    given[name] = tf.constant(column, tf.string)
  return given


def _ask(task, served, given):
  answers = served.functions["serving_default"](**given)
  return {name: value.numpy() for name, value in answers.items()}


def _row(given, row):
  return {name: value[row : row + 1] for name, value in given.items()}


@pytest.mark.parametrize("name", NAMES)
def test_every_text_has_an_answer_and_a_batch_does_not_change_it(
  every_task, name
):
  task, served = every_task[name]
  given = _inputs(task, HOSTILE.values())
  together = _ask(task, served, given)
  rows = len(next(iter(given.values())))
  for output, value in together.items():
    assert len(value) == rows, output
    if value.dtype != object:
      assert np.isfinite(value).all(), output
  for row in range(rows):
    for output, alone in _ask(task, served, _row(given, row)).items():
      if output in EQUALLY_GOOD.get(name, ()):
        continue
      inside = (row, *(slice(size) for size in alone.shape[1:]))
      found = together[output][inside]
      if alone.dtype == object:
        assert np.array_equal(found, alone[0]), (output, row)
      else:
        np.testing.assert_allclose(found, alone[0], atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_batch_has_empty_answers(every_task, name):
  task, served = every_task[name]
  for value in _ask(task, served, _inputs(task, [])).values():
    assert len(value) == 0


def test_every_task_is_tried(every_task):
  assert sorted(every_task) == sorted(NAMES)


def test_a_long_text_has_a_tag_for_every_word(every_task):
  task, served = every_task["tagging"]
  found = _ask(task, served, {"tokens": tf.constant(["abcd " * 50_000])})
  assert found["num_words"].tolist() == [50_000]
  assert all(found["tags"][0])
