"""Shards and their records, from whatever form the text has."""

import gzip
import json
from pathlib import Path
from random import Random

import pytest

from data.pretraining import parts, shards
from data.pretraining.instances import Settings
from data.pretraining.text_format import TextFormat

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
  """The same documents in every form; {name: (format, path)}."""
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


def _lines(cut, text):
  return [line for shard in cut for line in shard.lines(text) if line]


def test_every_form_has_the_same_sentences(tmp_path):
  documents = _documents(60)
  wanted = [line for document in documents for line in document]
  for name, (text, path) in _save(tmp_path, documents).items():
    cut = shards.cut([path], size=2000, text=text)
    assert (len(cut) > 3) == (not name.endswith("gz")), name
    assert _lines(cut, text) == wanted, name


def test_a_file_that_is_a_document_stays_whole(tmp_path):
  paths = []
  for number in range(9):
    paths.append(str(tmp_path / f"{number} ü.txt"))
    Path(paths[-1]).write_text("Owls hunt at night.\n\n" * (number + 1))
  cut = shards.cut(paths, size=60, text=TextFormat("documents"))
  assert all(span.end is None for shard in cut for span in shard.spans)
  assert [span.path for shard in cut for span in shard.spans] == paths
  assert len(cut) > 5


def test_what_cannot_be_cut_and_is_large_is_told(tmp_path, monkeypatch, caplog):
  monkeypatch.setattr(shards, "_HUGE", 4000)
  (tmp_path / "one.txt").write_text("a\n" * 5000)
  shards.cut([str(tmp_path / "one.txt")], size=1000)
  assert "one.txt: 0 MB that cannot be cut" in caplog.text


def _records(folder, paths, processes, **changes):
  job = parts.Job(
    VOCAB_FILE, True, Settings(32, 5, dupe_factor=1), 1, **changes
  )
  outputs = [str(folder / name) for name in "ab"]
  count = parts.write(job, paths, outputs, processes)
  return count, [Path(output).read_bytes() for output in outputs]


def test_duplicates_are_left_out_wherever_they_are(tmp_path, monkeypatch):
  monkeypatch.setattr(shards, "_SMALLEST", 4000)
  once, other = _documents(60), _documents(9, seed=2)
  again = "".join("\n".join([*d, "", ""]) for d in [*once, *other, *once])
  (tmp_path / "again").write_text(again)
  found = [
    _records(
      tmp_path / str(n), [str(tmp_path / "again")], n, drop_duplicates=True
    )
    for n in (1, 2)
  ]
  assert found[0] == found[1]
  cut = shards.cut([str(tmp_path / "again")])
  kept = parts._without_repeated(cut, TextFormat(), 1)
  assert sum(len(shard.dropped) for shard in kept) == len(once)
  assert kept[0].dropped == ()
  whole = _records(tmp_path / "whole", [str(tmp_path / "again")], 1)
  assert found[0][0] < 0.7 * whole[0]


def test_a_bad_row_in_a_worker_is_located(tmp_path):
  (tmp_path / "rows").write_text('{"text": "Owls hunt."}\n{"body": 1}\n')
  with pytest.raises(ValueError, match=r"rows, line 2: not a JSON object"):
    _records(tmp_path, [str(tmp_path / "rows")], 1, text=JSON)
