"""A corpus in shards: each format, and each document once."""

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from data.pretraining import shards
from data.pretraining.documents import TextFormat
from storage import textfiles
from tests.data.pretraining.corpus import as_text, random_documents, random_text


def _save(folder, documents):
  """Writes the same documents in every format: {name: (format, path)}."""
  lines = as_text(documents).encode()
  prose = "".join(" ".join([*d, "\n\n"]) for d in documents).encode()
  rows = [{"id": i, "text": " ".join(d)} for i, d in enumerate(documents)]
  rows = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
  forms = {
    "lines": (TextFormat(), lines),
    "lines.gz": (TextFormat(), gzip.compress(lines, mtime=0)),
    "paragraphs": (TextFormat("paragraphs"), prose),
    "rows.jsonl": (TextFormat("documents", "text"), rows),
    "rows.jsonl.gz": (
      TextFormat("documents", "text"),
      gzip.compress(rows, mtime=0),
    ),
  }
  for name, (_, content) in forms.items():
    (folder / name).write_bytes(content)
  return {name: (form, str(folder / name)) for name, (form, _) in forms.items()}


@pytest.fixture
def split(monkeypatch):
  """Returns a function that divides files into shards of a given size."""

  def split(paths, size, text_format=None):
    monkeypatch.setattr(shards, "_MIN_BYTES", size)
    monkeypatch.setattr(shards, "_MAX_BYTES", size)
    return shards.split_corpus(paths, text_format or TextFormat())

  return split


def _lines(corpus, text):
  return [line for shard in corpus for line in shard.lines(text) if line]


def test_every_format_has_the_same_sentences(tmp_path, split):
  documents = random_documents(60)
  expected = [line for document in documents for line in document]
  for name, (text, path) in _save(tmp_path, documents).items():
    corpus = split([path], 2000, text)
    assert (len(corpus) > 3) == (not name.endswith("gz")), name
    assert _lines(corpus, text) == expected, name


@pytest.mark.parametrize(
  ("kilobytes", "files_of_shards"),
  [
    (100, [6] * 10 + [4]),  # 1 MiB at least
    (600, [2] * 32),  # a 32nd of the text
    (600, [1] * 63),  # less than two files
    (1024, [2] * 32),
    (1350, [2] * 32),
    (1400, [1] * 64),  # 4 MiB at most
  ],
)
def test_a_shard_is_a_32nd_of_the_text(kilobytes, files_of_shards, tmp_path):
  """The records depend on the size; compressed text counts three times."""
  number = sum(files_of_shards)
  paths = [str(tmp_path / f"{index}.gz") for index in range(number)]
  for path in paths:
    with open(path, "wb") as file:
      file.truncate(1024 * kilobytes // 2)
  corpus = shards.split_corpus(paths, TextFormat())
  assert [len(shard.spans) for shard in corpus] == files_of_shards


def test_a_file_is_divided_from_one_and_a_half_shards_on(tmp_path, split):
  path = tmp_path / "text"
  for size, number in ((150, 1), (152, 2)):
    path.write_text("a\n\n" * (size // 3) + "\n" * (size % 3))
    assert len(split([str(path)], 100)) == number


def test_a_file_that_is_a_document_is_not_divided(tmp_path, split):
  paths = [str(tmp_path / f"{number} ü.txt") for number in range(9)]
  for number, path in enumerate(paths, 1):
    Path(path).write_text("Owls hunt at night.\n\n" * number)
  corpus = split(paths, 60, TextFormat("documents"))
  assert all(span.end is None for shard in corpus for span in shard.spans)
  assert [span.path for shard in corpus for span in shard.spans] == paths
  assert len(corpus) > 5


def test_a_large_document_is_warned_about(tmp_path, monkeypatch, caplog, split):
  monkeypatch.setattr(shards, "_LARGE_SPAN", 4000)
  (tmp_path / "one.txt").write_text("a\n" * 5000)
  split([str(tmp_path / "one.txt")], 1000)
  assert "one.txt: 0 MB cannot be divided" in caplog.text


def test_a_file_without_line_breaks_is_not_read_at_once(tmp_path, monkeypatch):
  monkeypatch.setattr(textfiles, "MAX_LINE_BYTES", 1 << 16)
  path = str(tmp_path / "one line.jsonl")
  Path(path).write_text("[" * 5_000_000)
  tracemalloc.start()
  corpus = shards.split_corpus([path], TextFormat(field="text"))
  _, peak = tracemalloc.get_traced_memory()
  tracemalloc.stop()
  assert peak < 1e6
  with pytest.raises(ValueError, match=r"one line\.jsonl, line 1: no line br"):
    _lines(corpus, TextFormat(field="text"))


def test_shards_hold_every_document_once(tmp_path, split):
  texts = [random_text(60, 1), random_text(1, 2), random_text(2, 3)]
  texts += ["x\n" * 5000, ""]
  paths = [str(tmp_path / f"{number}.txt") for number in range(5)]
  for path, text in zip(paths, texts, strict=True):
    Path(path).write_text(text)
  corpus = split(paths, 3000)
  assert len(corpus) > 3
  assert [shard.number for shard in corpus] == list(range(len(corpus)))
  read = dict.fromkeys(paths, "")
  for shard in corpus:
    for path, start, end, _ in shard.spans:
      assert len(read[path].encode()) == start
      if start:
        assert read[path].endswith("\n\n")
      read[path] += "".join(f"{i}\n" for i in textfiles.lines(path, start, end))
  assert list(read.values()) == texts
  largest = max(s.megabytes for s in corpus if "3.txt" not in str(s))
  assert largest < 6000 / 1e6
