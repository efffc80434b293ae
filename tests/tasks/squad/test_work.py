"""Work that no answer shows: a paragraph is split only once."""

import numpy as np
import pytest

from data.tokenization import FullTokenizer
from storage import workers
from tasks.squad import decoding
from tasks.squad.examples import SquadExample
from tasks.squad.records import WindowConfig, WindowMaker
from tests.parity import golden_files


@pytest.fixture(name="tokenizer", scope="module")
def _tokenizer():
  return FullTokenizer(golden_files.GOLDEN / "vocab.txt")


def _maker(tokenizer):
  """Returns a WindowMaker, and a list of the texts that it splits."""
  maker, split = WindowMaker(tokenizer, WindowConfig(32, 8, 8)), []
  ids = maker._ids
  maker._ids = lambda text: split.append(text) or ids(text)
  return maker, split


def test_a_paragraph_is_tokenized_once_for_all_questions(tokenizer):
  maker, split = _maker(tokenizer)
  words, others = ["a", "red", "boat"], ["a", "old", "mill"]
  same = [*words]  # another paragraph
  questions = [
    SquadExample("", f"what {i}", text)
    for i, text in enumerate([words, words, words, others, words, same])
  ]
  [*windows] = maker(workers.Chunk(0, questions, "questions"))
  first, *_ = split
  assert first == "what 0"
  assert split.count("red") == 3  # words, words again, same
  assert split.count("old") == 1
  for window, question in zip(windows, questions, strict=True):
    pieces = tokenizer.convert_ids_to_tokens(
      window.ids[window.context_offset : -1]
    )
    assert pieces == question.doc_tokens


def test_each_word_of_the_answers_is_split_once(tokenizer, monkeypatch):
  split, tokenize = [], tokenizer.basic_tokenizer.tokenize

  def note(text):
    split.append(text)
    return tokenize(text)

  monkeypatch.setattr(tokenizer.basic_tokenizer, "tokenize", note)
  answer_text = decoding.AnswerText(tokenizer)
  words = ["The", "River's", "old", "mill."]
  example = SquadExample("", "Where?", words)
  maker = WindowMaker(tokenizer, WindowConfig(32, 8, 8))
  [window] = maker(workers.Chunk(0, [example], "questions"))
  split.clear()
  for _ in range(3):
    for start in range(len(window.token_word_ids)):
      begin = start + window.context_offset
      answer_text.text(words, window, begin, begin)
  assert sorted(split) == sorted(words)


@pytest.mark.parametrize("size", [1, 2])
def test_only_spans_of_the_best_ends_are_looked_at(
  tokenizer, monkeypatch, size
):
  """The decoder does not look at all T * T spans."""
  words = ["a", "red", "boat", "a", "blue", "kite"]
  example = SquadExample("", "what", words)
  maker = WindowMaker(tokenizer, WindowConfig(16, 8, 8))
  windows = maker(workers.Chunk(0, [example], "questions"))
  answer_text, calls = decoding.AnswerText(tokenizer), []
  text = answer_text.text
  monkeypatch.setattr(
    answer_text, "text", lambda *given: calls.append(given) or text(*given)
  )
  logits = [(np.arange(len(w.ids)) / 8.0,) * 2 for w in windows]
  decoding.decode(
    [example], windows, logits, answer_text, decoding.DecodingConfig(size + 1)
  )
  assert 0 < len(calls) <= (size + 1) ** 2
