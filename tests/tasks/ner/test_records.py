"""Records of tagged sentences: labels, windows and context."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.ner import metrics, records, task
from tasks.ner.examples import Sentence
from tasks.ner.records import TagWindow
from tests.serving.stand_in import WORDS

SEP = 3
TAGS = ("O", "B-X", "I-X")


def _text(row):
  return " ".join(WORDS[i] for i in row["input_ids"][: sum(row["input_mask"])])


def _build(tokenizer, sentences, seq_length=8, **options):
  build = records.TagRecordBuilder(tokenizer, seq_length, TAGS, **options)
  return list(build(sentences))


def word_values(outputs, windows):
  """Returns the outputs, [N, T, ...], at the words of windows."""
  numbers = np.arange(len(windows) + 1)[::-1, None]  # the last is padding
  batches = [
    {"position": number, "logits": np.take(outputs, number, 0, mode="clip")}
    for number in numbers
  ]
  data = SimpleNamespace(rows=windows, eval_batches=lambda _: batches)
  with pytest.MonkeyPatch.context() as patch:
    # One batch at a time, so that memory does not grow with [N, T].
    patch.setattr(task.loop, "predict", lambda _, batches: batches[0])
    return task.word_logits(None, data, 1)


def test_the_first_piece_of_a_word_has_the_label(tokenizer):
  sentence = Sentence(["ab", "c", "\u200b", "de"], ["B-X", "O", "O", "I-X"])
  [(row, window)] = _build(tokenizer, [sentence], 10)
  assert _text(row) == "[CLS] a ##b c [UNK] d ##e [SEP]"
  assert row["label_ids"] == [-1, 1, -1, 0, 0, 2, -1, -1, -1, -1]
  assert row["segment_ids"] == [0] * 10
  assert window == TagWindow(0, [1, 3, 4, 5])


def test_sentences_without_tags_have_no_labels(tokenizer):
  [(row, window)] = _build(tokenizer, [Sentence(["a", "b"], None)])
  assert (row["label_ids"], window.positions) == ([-1] * 8, [1, 2])


def test_parts_of_a_long_sentence_have_context_of_the_same_sentence(tokenizer):
  rows = _build(tokenizer, [Sentence([*"abcdeab"], ["O"] * 7)])
  assert [(_text(row), row["label_ids"], w.word) for row, w in rows] == [
    ("[CLS] a b c d e a [SEP]", [-1, 0, 0, 0, 0, -1, -1, -1], 0),
    ("[CLS] b c d e a b [SEP]", [-1, -1, -1, -1, 0, 0, 0, -1], 4),
  ]


def test_a_too_long_word_is_cut_to_its_beginning(tokenizer):
  sentence = Sentence(["a", "abcdeabcde", "b"], ["O", "B-X", "O"])
  _, (row, _), *_ = _build(tokenizer, [sentence])
  assert _text(row) == "[CLS] a ##b ##c ##d ##e ##a [SEP]"


def test_a_record_has_as_much_context_of_the_document_as_fits(tokenizer):
  words = ("ab", 0), ("c", 0), ("d", 0), ("edcba", 0), ("e", 1)
  sentences = [Sentence([word], ["O"], document) for word, document in words]
  rows = _build(tokenizer, sentences, document_context=True)
  assert [_text(row) for row, _ in rows] == [
    "[CLS] a ##b c d e ##d [SEP]",  # no text before: all context after
    "[CLS] a ##b c d e ##d [SEP]",
    "[CLS] ##b c d e ##d ##c [SEP]",  # equal context on both sides
    "[CLS] d e ##d ##c ##b ##a [SEP]",
    "[CLS] e [SEP]",  # alone in its document
  ]
  labels = [row["label_ids"] for row, _ in rows]
  assert [label.index(0) for label in labels] == [1, 3, 3, 2, 1]
  assert all(label.count(-1) == 7 for label in labels)


_words = st.text(alphabet="abcde", min_size=1, max_size=9)
_pairs = st.tuples(_words, st.sampled_from(TAGS))
_sentences = st.tuples(st.lists(_pairs, min_size=1, max_size=30), st.booleans())
_texts = st.lists(_sentences, min_size=1, max_size=5)


@given(_texts, st.integers(3, 12), st.booleans())
def test_each_word_has_a_label_in_exactly_one_record(
  tokenizer, texts, seq_length, document_context
):
  document, sentences = 0, []
  for words, is_new in texts:
    document += is_new
    sentences.append(Sentence(*map(list, zip(*words, strict=True)), document))
  options = {"document_context": document_context}
  made = _build(tokenizer, sentences, seq_length, **options)
  rows, windows = zip(*made, strict=True)
  labels = np.array([row["label_ids"] for row in rows])
  ids = word_values(labels, windows)
  result = metrics.best_tags(np.eye(len(TAGS))[ids], TAGS, sentences)
  assert result == [sentence.tags for sentence in sentences]
  assert np.sum(labels != -1) == sum(len(s.words) for s in sentences)
  last = [row["input_ids"][sum(row["input_mask"]) - 1] for row in rows]
  assert last == [SEP] * len(rows)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=40), st.integers(7, 20))
def test_sentence_parts_have_all_words_and_fit_a_record(lengths, max_pieces):
  parts = records.split_long(lengths, max_pieces)
  words = [w for begin, end in parts for w in range(begin, end)]
  assert words == list(range(len(lengths)))
  assert all(sum(lengths[begin:end]) <= max_pieces for begin, end in parts)
  assert len(parts) == 1 or sum(lengths) > max_pieces
