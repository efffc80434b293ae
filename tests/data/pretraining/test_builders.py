"""Shards and their records, from text in every format."""

import gzip
import json
from pathlib import Path
from random import Random

import pytest

from data.pretraining import builders, shards
from data.pretraining.documents import TextFormat
from data.pretraining.instances import InstanceConfig

VOCAB_FILE = str(Path(__file__).parents[2] / "parity/golden/vocab.txt")
JSON = TextFormat(field="text")


def _documents(number, seed=1):
  rng = Random(seed)
  words = ["The", "bank", "river", "runs", "sees", "old", "new", "unaffable"]
  return [
    [
      " ".join(rng.choices(words, k=rng.randint(3, 20))).capitalize() + "."
      for _ in range(rng.randint(2, 9))
    ]
    for _ in range(number)
  ]


def _save(folder, documents):
  """Writes the same documents in every format: {name: (format, path)}."""
  lines = "".join("\n".join([*d, "", ""]) for d in documents).encode()
  prose = "".join(" ".join([*d, "\n\n"]) for d in documents).encode()
  rows = "".join(
    json.dumps({"id": i, "text": " ".join(document)}) + "\n"
    for i, document in enumerate(documents)
  ).encode()
  forms = {
    "lines": (TextFormat(), lines),
    "lines.gz": (TextFormat(), gzip.compress(lines)),
    "paragraphs": (TextFormat("paragraphs"), prose),
    "rows.jsonl": (TextFormat("documents", "text"), rows),
    "rows.jsonl.gz": (TextFormat("documents", "text"), gzip.compress(rows)),
  }
  for name, (_, content) in forms.items():
    (folder / name).write_bytes(content)
  return {name: (form, str(folder / name)) for name, (form, _) in forms.items()}


def _lines(corpus, text):
  return [line for shard in corpus for line in shard.lines(text) if line]


def test_every_format_has_the_same_sentences(tmp_path):
  documents = _documents(60)
  expected = [line for document in documents for line in document]
  for name, (text, path) in _save(tmp_path, documents).items():
    corpus = shards.split_corpus([path], size=2000, text_format=text)
    assert (len(corpus) > 3) == (not name.endswith("gz")), name
    assert _lines(corpus, text) == expected, name


def test_a_file_that_is_a_document_is_not_divided(tmp_path):
  paths = []
  for number in range(9):
    paths.append(str(tmp_path / f"{number} ü.txt"))
    Path(paths[-1]).write_text("Owls hunt at night.\n\n" * (number + 1))
  text_format = TextFormat("documents")
  corpus = shards.split_corpus(paths, size=60, text_format=text_format)
  assert all(span.end is None for shard in corpus for span in shard.spans)
  assert [span.path for shard in corpus for span in shard.spans] == paths
  assert len(corpus) > 5


def test_a_large_document_is_warned_about(tmp_path, monkeypatch, caplog):
  monkeypatch.setattr(shards, "_LARGE_SPAN", 4000)
  (tmp_path / "one.txt").write_text("a\n" * 5000)
  shards.split_corpus([str(tmp_path / "one.txt")], size=1000)
  assert "one.txt: 0 MB that cannot be divided" in caplog.text


def test_shards_of_one_text_are_drawn_by_their_numbers(tmp_path):
  """Else every shard would pair and mask at the same positions."""
  path = tmp_path / "text.txt"
  lines = ("\n".join([*document, "", ""]) for document in _documents(9))
  path.write_text("".join(lines))
  [shard] = shards.split_corpus([str(path)])
  settings = InstanceConfig(32, 5, dupe_factor=1)
  builder = builders.RecordBuilder(
    builders.BuildConfig(VOCAB_FILE, True, settings, seed=1)
  )
  first, again, second = (
    builder.build_shard(shard._replace(number=number)).records
    for number in (0, 0, 1)
  )
  assert first == again
  assert not set(first) & set(second)


def _records(folder, paths, processes, **changes):
  config = builders.BuildConfig(
    VOCAB_FILE, True, InstanceConfig(32, 5, dupe_factor=1), 1, **changes
  )
  outputs = [str(folder / name) for name in "ab"]
  count = builders.write_shards(config, paths, outputs, processes)
  return count, [Path(output).read_bytes() for output in outputs]


def test_duplicates_are_dropped_in_all_shards(tmp_path, monkeypatch):
  monkeypatch.setattr(shards, "_MIN_BYTES", 4000)
  once, more = _documents(60), _documents(9, seed=2)
  again = "".join("\n".join([*d, "", ""]) for d in [*once, *more, *once])
  (tmp_path / "again").write_text(again)
  result = [
    _records(tmp_path / str(n), [str(tmp_path / "again")], n, deduplicate=True)
    for n in (1, 2)
  ]
  assert result[0] == result[1]
  corpus = shards.split_corpus([str(tmp_path / "again")])
  marked = builders._mark_duplicates(corpus, TextFormat(), 1)
  assert sum(len(shard.dropped) for shard in marked) == len(once)
  assert marked[0].dropped == ()
  everything = _records(tmp_path / "all", [str(tmp_path / "again")], 1)
  assert result[0][0] < 0.7 * everything[0]


def test_a_bad_row_in_a_worker_is_located(tmp_path):
  (tmp_path / "rows").write_text('{"text": "Owls hunt."}\n{"body": 1}\n')
  with pytest.raises(ValueError, match=r"rows, line 2: not a JSON object"):
    _records(tmp_path, [str(tmp_path / "rows")], 1, text_format=JSON)
