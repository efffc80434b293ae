"""Windows of SQuAD's paragraphs: tokens, labels and maximum context."""

import numpy as np
import pytest

from data.tokenization import FullTokenizer
from storage.processes import Chunk
from tasks.squad import records as squad_records
from tasks.squad.examples import Answer, SquadExample
from tasks.squad.records import WindowConfig, WindowMaker, make_windows
from tests.parity import golden_files

# The id of a token is its position in this text.
VOCAB = "[PAD] [UNK] [CLS] [SEP] when ? in the mill burn ##t ( 1895 ) ."

LARGE = FullTokenizer(golden_files.GOLDEN / "vocab.txt")


@pytest.fixture
def tokenizer(tmp_path):
  """Returns a tokenizer of the words in VOCAB."""
  path = tmp_path / "vocab.txt"
  path.write_text(VOCAB.replace(" ", "\n"))
  return FullTokenizer(path)


def example(words, question="When?", answer=None):
  return SquadExample("q", question, words.split(), answer)


def cut_windows(tokenizer, *examples, lengths=()):
  return list(make_windows(examples, tokenizer, WindowConfig(*lengths)))


@pytest.mark.parametrize("stride", [4, 5, 1000])
def test_a_large_stride_leaves_no_token_out(tokenizer, stride):
  # The question takes 4 of 9 tokens, and the last [SEP] one.
  one, lengths = example("the mill in " * 3), (9, 5, stride)
  result = cut_windows(tokenizer, one, lengths=lengths)
  words = [window.token_word_ids.tolist() for window in result]
  assert words == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
  assert all(window.is_max_context.all() for window in result)


def test_a_paragraph_without_tokens_has_no_window(tokenizer):
  questions = example(""), example("\u200b \ufffd"), example("the")
  [window] = cut_windows(tokenizer, *questions)
  assert window.example_index == 2


@pytest.mark.parametrize(
  ("text", "span"),
  [
    ("(1895)", (0, 2)),
    ("1895", (1, 1)),
    ("1895) the", (1, 3)),
    ("burnt", (4, 5)),
    ("burn", (4, 4)),
    ("896", (0, 5)),  # no tokens match, so the span has all three words
    ("\u200b", (0, 5)),
  ],
)
def test_an_answer_within_words_is_located_by_its_tokens(tokenizer, text, span):
  one = example("(1895) the burnt", answer=Answer(text, 0, 2))
  [window] = cut_windows(tokenizer, one)
  # The context begins after [CLS] when ? [SEP].
  assert (window.start - 4, window.end - 4) == span


def test_two_workers_make_the_same_windows_as_one(tokenizer, monkeypatch):
  monkeypatch.setattr(squad_records, "_CHUNK", 3)
  questions = [example("the mill burnt " * n, "When?" * n) for n in range(10)]
  parts = questions, tokenizer, WindowConfig(20, 10, 3)
  alone = list(make_windows(*parts))
  together = list(make_windows(*parts, num_workers=2))
  assert len(alone) == len(together) == 50
  for one, other in zip(alone, together, strict=True):
    for mine, theirs in zip(one, other, strict=True):
      np.testing.assert_array_equal(mine, theirs)


def test_a_paragraph_is_tokenized_once_for_consecutive_questions():
  maker, split = WindowMaker(LARGE, WindowConfig(32, 8, 8)), []
  ids = maker._ids
  maker._ids = lambda text: split.append(text) or ids(text)
  words, others = ["a", "red", "boat"], ["a", "old", "mill"]
  same = [*words]  # a second paragraph with equal words
  paragraphs = [words, words, words, others, words, same]
  asked = [SquadExample("", f"what {i}", p) for i, p in enumerate(paragraphs)]
  [*windows] = maker(Chunk(0, asked, "questions"))
  assert split.count("what 0") == 1
  assert split.count("red") == 3  # for words, for words after others, for same
  assert split.count("old") == 1
  for window, one in zip(windows, asked, strict=True):
    ids = window.ids[window.context_offset : -1]
    assert LARGE.convert_ids_to_tokens(ids) == one.doc_tokens
