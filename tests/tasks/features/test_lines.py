import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import vocab
from data.tokenization import FullTokenizer
from storage import Progress
from tasks.features import lines as text_lines
from tasks.features import task
from tasks.features.lines import Line
from tests import programs
from training import inference

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "|"]


@pytest.mark.parametrize(
  ("text", "texts"),
  [
    ("a", ("a", None)),
    ("", ("", None)),
    ("a ||| b", ("a", "b")),
    (" a  ||| \tb ", ("a ", "\tb")),
    ("a ||| b ||| c", ("a ||| b", "c")),
    ("a ||| ||| b", ("a |||", "b")),
    ("a|||b", ("a|||b", None)),
    ("||| b", ("||| b", None)),
    ("a ||| ", ("a |||", None)),
  ],
)
def test_the_last_bar_between_blanks_separates(text, texts):
  assert text_lines.split(text) == texts


def _read(tmp_path, text, max_seq_length):
  vocab.save(TOKENS, tmp_path / "vocab.txt")
  path = tmp_path / "text.txt"
  path.write_text(text)
  tokenizer = FullTokenizer(tmp_path / "vocab.txt")
  lines = text_lines.read_lines(str(path), tokenizer, max_seq_length)
  return [(x.number, [TOKENS[i] for i in x.ids], x.segments) for x in lines]


def test_lines_are_tokens_between_cls_and_sep(tmp_path):
  assert _read(tmp_path, "a B\n\na ||| b c\na ||| \u200b\n", 16) == [
    (0, ["[CLS]", "a", "b", "[SEP]"], [0, 0, 0, 0]),
    (1, ["[CLS]", "[SEP]"], [0, 0]),
    (2, ["[CLS]", "a", "[SEP]", "b", "c", "[SEP]"], [0, 0, 0, 1, 1, 1]),
    (3, ["[CLS]", "a", "[SEP]"], [0, 0, 0]),
  ]


def test_long_lines_lose_their_end_and_the_longer_text_first(tmp_path, caplog):
  assert _read(tmp_path, "a b c a b\na b c ||| a\na b ||| b c\n", 6) == [
    (0, ["[CLS]", "a", "b", "c", "a", "[SEP]"], [0] * 6),
    (1, ["[CLS]", "a", "b", "[SEP]", "a", "[SEP]"], [0, 0, 0, 0, 1, 1]),
    (2, ["[CLS]", "a", "b", "[SEP]", "b", "[SEP]"], [0, 0, 0, 0, 1, 1]),
  ]
  assert "max_seq_length=6 is exceeded by 3 of 3 texts" in caplog.text


def test_count_looks_at_every_line(tmp_path):
  path = tmp_path / "text.txt"
  path.write_bytes(b"a\n\nb")
  assert text_lines.count(str(path)) == 3
  for content, message in (
    (b"", "is empty, or a pipe: give a file of texts"),
    (b"a\n\xff\n", "line 2: byte 2"),
  ):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
      text_lines.count(str(path))


LENGTHS = st.lists(st.integers(2, 19), min_size=1, max_size=40)


def _lines(lengths):
  return [Line(i, [i + 1] * n, [1] * n) for i, n in enumerate(lengths)]


@given(LENGTHS, st.integers(1, 100))
def test_chunks_have_all_lines_and_a_bounded_size(lengths, max_tokens):
  lines = _lines(lengths)
  chunks = list(text_lines.chunks(iter(lines), max_tokens))
  assert [line for chunk in chunks for line in chunk] == lines
  for chunk in chunks:
    assert sum(len(line.ids) for line in chunk[:-1]) < max_tokens


@given(LENGTHS, st.integers(1, 7), st.sampled_from([1, 8, 19]))
def test_batches_hold_every_line_once(lengths, batch_size, multiple):
  chunk, seen = _lines(lengths), []
  for indices, batch in text_lines.batches(chunk, batch_size, 19, multiple):
    longest = max(len(chunk[i].ids) for i in indices)
    length = batch["input_ids"].shape[1]
    assert longest <= length <= min(longest + multiple - 1, 19)
    rows = zip(indices, batch["input_ids"], batch["input_mask"], strict=True)
    for index, row, mask in rows:
      np.testing.assert_array_equal(row[mask == 1], chunk[index].ids)
      assert not row[mask == 0].any()
    np.testing.assert_array_equal(batch["segment_ids"], batch["input_mask"])
    seen += indices
  assert sorted(seen) == list(range(len(chunk)))
  assert all(array.dtype == np.int32 for array in batch.values())


@pytest.mark.parametrize(
  ("flags", "length"),
  [
    ({}, 24),  # a multiple of 8
    ({"long_text": "windows", "max_seq_length": 6}, 24),
    ({"use_tpu": True}, 30),  # every length costs a compilation
  ],
)
def test_lines_are_read_to_their_end(tmp_path, monkeypatch, flags, length):
  vocab.save(TOKENS, tmp_path / "vocab.txt")
  (tmp_path / "input.txt").write_text("a " * 20)
  args = programs.arguments(
    "extract_features",
    **{"max_seq_length": 30, "max_text_length": 30, "pooling": "cls"} | flags,
    layers="-1",
    output_file=f"{tmp_path}/out",
    **{x: f"{tmp_path}/{x[:5]}.txt" for x in ("vocab_file", "input_file")},
  )
  masks = []

  def predict(_, batches):
    masks.extend(batches[0]["input_mask"])
    return {"values": np.zeros((1, 1, 2))}

  monkeypatch.setattr(inference, "predict", predict)
  task.write(args, None, 2)
  [mask] = masks
  assert (mask.sum(), len(mask)) == (22, length)


def test_chunks_may_have_longer_and_longer_lines(monkeypatch):
  def predict(_, batches):
    return {"values": batches[0]["input_ids"]}

  monkeypatch.setattr(inference, "predict", predict)
  lines = _lines(range(2, 20, 2))
  flags = {"max_seq_length": 32, "batch_size": 2}
  args = programs.arguments("extract_features", **flags)
  results = task._extract(args, None, lines, 10, Progress("read", 9, "lines"))
  for line, values in results:
    np.testing.assert_array_equal(values, line.ids)
