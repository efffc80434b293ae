"""extract_features.py turns lines into tokens, batches and output files."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import vocab
from data.features import Row
from tasks.features import lines as text_lines
from tasks.features import task
from tests import programs, small_model
from training import loop

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "|"]


@pytest.mark.parametrize(
  ("text", "texts"),
  [
    ("a", ("a", None)),
    ("a ||| b", ("a", "b")),
    (" a  ||| \tb ", ("a ", "\tb")),
    ("a ||| b ||| c", ("a ||| b", "c")),
    ("||| b", ("||| b", None)),
    ("a ||| ", ("a |||", None)),
  ],
)
def test_a_line_is_split_at_its_last_separator(text, texts):
  assert text_lines.split(text) == texts


def test_lines_become_tokens_between_cls_and_sep(tmp_path, caplog):
  vocab.save(TOKENS, tmp_path / "vocab.txt")
  (tmp_path / "text.txt").write_text("a B\n\na ||| b c\na ||| \u200b\n")
  flags = {"vocab_file": "vocab.txt", "input_file": "text.txt"}
  flags = {name: f"{tmp_path}/{file}" for name, file in flags.items()}
  args = programs.arguments("extract_features", max_seq_length=5, **flags)
  lines = text_lines.read_lines(args)
  assert [(" ".join(TOKENS[i] for i in x.ids), x.segments) for x in lines] == [
    ("[CLS] a b [SEP]", [0, 0, 0, 0]),
    ("[CLS] [SEP]", [0, 0]),
    ("[CLS] a [SEP] b [SEP]", [0, 0, 0, 1, 1]),
    ("[CLS] a [SEP]", [0, 0, 0]),
  ]
  assert "max_seq_length=5 is exceeded by 1 of 4 texts" in caplog.text


def test_counting_the_lines_of_a_file_checks_every_line(tmp_path, caplog):
  path = tmp_path / "text.csv"
  path.write_bytes(b"a\n\nb")
  assert text_lines.count(str(path)) == 3
  assert "text.csv: a line is a text, with all columns or" in caplog.text
  for content, message in (
    (b"", "is empty, or a pipe: give a file of texts"),
    (b"a\n\xff\n", "line 2: byte 2"),
  ):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
      text_lines.count(str(path))


LENGTHS = st.lists(st.integers(2, 19), min_size=1, max_size=40)


def _lines(lengths):
  return [Row([i + 1] * n, [1] * n, n) for i, n in enumerate(lengths)]


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


WINDOWS = {"long_text": "windows", "max_seq_length": 6}


# A multiple of 8, also for windows. On TPUs one length, so one compilation.
@pytest.mark.parametrize(
  ("flags", "length"), [({}, 24), (WINDOWS, 24), ({"use_tpu": True}, 30)]
)
def test_lines_are_padded_to_a_multiple_of_8_or_on_tpus_to_the_maximum_length(
  tmp_path, monkeypatch, flags, length
):
  vocab.save(TOKENS, tmp_path / "vocab.txt")
  (tmp_path / "input.txt").write_text("a " * 20 + "\nb\n")
  names = {"output": "out", "vocab": "vocab.txt", "input": "input.txt"}
  files = {f"{kind}_file": f"{tmp_path}/{name}" for kind, name in names.items()}
  values = {"max_seq_length": 30, "max_text_length": 30, "pooling": "cls"}
  values |= {"layers": "-1", "batch_size": 1} | flags
  args = programs.arguments("extract_features", **files, **values)
  masks = []

  def predict(_, batches):
    masks.extend(batches[0]["input_mask"])
    return {"values": np.zeros((1, 1, 2))}

  monkeypatch.setattr(loop, "predict", predict)
  task.write(args, None, small_model.config(len(TOKENS)))
  # Short lines come first. Each line has [CLS] and [SEP], and its own batch.
  assert [mask.sum() for mask in masks] == [3, 22]
  assert len(masks[1]) == length


# --- Files of activations ----------------------------------------------------


LINES = [Row([2, 5, 3], [0, 0, 0], 3), Row([2, 3], [0, 0], 2)]
LAYERS = [-1, 0]


def _tokens(ids):
  return [f"t{i}" for i in ids]


def _values(*shape, seed=0):
  return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def test_a_line_is_written_as_json(tmp_path):
  path = tmp_path / "out.jsonl"
  of_tokens, of_text = [[[1.2345672], [-2]], [[0.5], [1e-7]]], [[1.0], [2.0]]
  values = (np.array(value, np.float32) for value in (of_tokens, of_text))
  results = zip(LINES[::-1], values, strict=True)
  text_lines.write_json(str(path), results, LAYERS, _tokens)
  assert path.read_text() == (
    '{"linex_index": 0, "features": ['
    '{"token": "t2", "layers": [{"index": -1, "values": [1.234567]}, '
    '{"index": 0, "values": [-2.0]}]}, '
    '{"token": "t3", "layers": [{"index": -1, "values": [0.5]}, '
    '{"index": 0, "values": [0.0]}]}]}\n'
    '{"linex_index": 1, "layers": [{"index": -1, "values": [1.0]}, '
    '{"index": 0, "values": [2.0]}]}\n'
  )


def test_numbers_are_rounded_as_python_rounds_them(tmp_path):
  path = tmp_path / "out.jsonl"
  values = np.hstack([_values(1, 10000) * 9, _values(1, 99) / 1e5])
  values[0, :3] = 1 / 128, 3 / 128, -1e-9  # ties, and a negative zero
  text_lines.write_json(str(path), [(LINES[0], values)], [0], _tokens)
  result = json.loads(path.read_text())["layers"][0]["values"]
  expected = [round(float(x), 6) for x in values.ravel()]
  assert list(map(repr, result)) == list(map(repr, expected))


def test_npz_files_of_equal_vectors_have_equal_bytes(tmp_path, monkeypatch):
  # The vectors may not fit into /tmp, but wait beside the output.
  monkeypatch.setattr("tempfile.tempdir", f"{tmp_path}/missing")
  values = [_values(2, 4, seed=seed) for seed in range(2)]
  paths = [tmp_path / name for name in ("one.npz", "two.npz")]
  for path in paths:
    text_lines.write_npz(str(path), zip(LINES, values, strict=True), LAYERS)
  result = dict(np.load(paths[0]))
  assert sorted(result) == ["layers", "vectors"]
  np.testing.assert_array_equal(result["vectors"], values)
  assert paths[0].read_bytes() == paths[1].read_bytes()


def test_the_code_in_docs_fine_tuning_md_runs(tmp_path, monkeypatch, capsys):
  text = (programs.ROOT / "docs/fine_tuning.md").read_text(encoding="utf-8")
  [block] = re.findall(r"```python\n(.*?LogisticRegression.*?)```", text, re.S)
  monkeypatch.chdir(tmp_path)
  rng = np.random.RandomState(1)
  for name, number in (("train", 40), ("dev", 10)):
    is_first = np.arange(number) % 2
    vectors = rng.normal(size=(number, 2, 3)) + 4 * is_first[:, None, None]
    np.savez(f"{name}.npz", vectors=vectors, layers=[-1, -2])
    labels = "".join(f"{label}\n" for label in is_first)
    (tmp_path / f"{name}.labels").write_text(labels)
  values = {}
  exec(compile(block, "docs/fine_tuning.md", "exec"), values)
  assert capsys.readouterr().out.startswith("accuracy 1.0")
  neighbours = [values["labels"][line] for [line] in values["lines"]]
  assert neighbours == values["expected"]
