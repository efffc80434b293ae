"""Records by worker processes; tests/parity tests a single process."""

import os
from pathlib import Path

import pytest
import tensorflow as tf

from data.pretraining import documents, instances, shards
from data.pretraining.documents import TextFormat
from storage import Progress
from tests.data.pretraining import corpus


def test_shards_of_one_text_are_drawn_by_their_numbers(tmp_path):
  """Equal draws would pair and mask every shard at the same positions."""
  path = tmp_path / "text.txt"
  path.write_text(corpus.random_text(9))
  [shard] = documents.split_corpus([str(path)], TextFormat())
  records = []
  for number, seed in ((0, 1), (0, 1), (1, 1), (0, 2)):
    builder = instances.RecordBuilder(corpus.build_config(seed=seed))
    numbered = shard._replace(number=number)
    records.append(shards.build_shard(builder, numbered)[0])
  first, again, second, other = records
  assert first == again
  assert not set(first) & set(second)
  assert not set(first) & set(other)


def _records(folder, paths, processes, names="abc", **changes):
  """Writes records; returns the number of records and the files' contents."""
  config = corpus.build_config(**changes)
  outputs = [str(folder / name) for name in names]
  count = shards.write_shards(config, paths, outputs, processes)
  return count, [Path(output).read_bytes() for output in outputs]


def test_single_documents_are_warned_about(tmp_path, monkeypatch, caplog):
  monkeypatch.setattr(documents, "_MIN_BYTES", 4000)
  paths = [str(tmp_path / name) for name in ("book", "other book")]
  for path in paths:
    Path(path).write_text("Owls hunt at night.\n" * 300)
  _records(tmp_path, paths, 1)
  assert "2 of 2 shards are a single document" in caplog.text
  output = str(tmp_path / "c")
  shards.write_in_memory(corpus.build_config(), paths[:1], [output])
  assert "the text is a single document" in caplog.text


@pytest.mark.parametrize("processes", [0, 1])
def test_too_many_random_next_sentences_are_warned_about(
  processes, tmp_path, caplog
):
  text = "Owls hunt at night, and bats do.\n"
  for name, size in (("short", 2), ("long", 300)):
    path, caplog_text = str(tmp_path / name), "second sentences are random"
    Path(path).write_text((text * size + "\n") * (1200 // size))
    if processes:
      _records(tmp_path, [path], processes)
    else:
      outputs = [str(tmp_path / "records")]
      shards.write_in_memory(corpus.build_config(), [path], outputs)
    assert (caplog_text in caplog.text) == (name == "short")
    caplog.clear()


def test_duplicates_are_dropped_in_all_shards(tmp_path, monkeypatch):
  monkeypatch.setattr(documents, "_MIN_BYTES", 4000)
  once, more = corpus.random_documents(60), corpus.random_documents(9, seed=2)
  (tmp_path / "again").write_text(corpus.as_text([*once, *more, *once]))
  paths = [str(tmp_path / "again")]
  result = [
    _records(tmp_path / str(n), paths, n, deduplicate=True) for n in (1, 2)
  ]
  assert result[0] == result[1]
  text_shards = documents.split_corpus(paths, TextFormat())
  marked = shards._mark_duplicates(text_shards, TextFormat(), 1)
  assert sum(len(shard.dropped) for shard in marked) == len(once)
  assert marked[0].dropped == ()
  assert result[0][0] < 0.7 * _records(tmp_path / "all", paths, 1)[0]


def test_workers_end_before_their_folder_is_removed(tmp_path, monkeypatch):
  (tmp_path / "text").write_text(corpus.random_text(9))
  matches = []

  def ordered_map(prepare, shards, *_):
    _, folder, _ = prepare.args
    try:
      _, counts, samples = prepare()(shards[0])
      yield [(f"{folder}/missing", [])], counts, samples
    finally:
      matches.append(os.path.exists(folder))

  monkeypatch.setattr(shards.workers, "ordered_map", ordered_map)
  with pytest.raises(FileNotFoundError, match="missing"):
    _records(tmp_path, [str(tmp_path / "text")], 1)
  assert matches == [True]
  assert os.listdir(tmp_path) == ["text"]


def test_sizes_of_compressed_texts_are_estimated(tmp_path):
  for name in ("text", "text.gz"):
    (tmp_path / name).write_bytes(b"x" * 10)
  sizes = [documents.text_size(str(tmp_path / n)) for n in ("text", "text.gz")]
  assert sizes == [10, 30]


@pytest.mark.parametrize("masking", [corpus.MASKING, None])
def test_any_number_of_workers_does_the_same(masking, tmp_path, monkeypatch):
  monkeypatch.setattr(documents, "_MIN_BYTES", 4000)
  (tmp_path / "text").write_text(corpus.random_text(60, 4))
  paths = [str(tmp_path / "text")]
  assert len(documents.split_corpus(paths, TextFormat())) > 2
  expected = _records(tmp_path / "one", paths, 1, masking=masking)
  result = _records(tmp_path / "two", paths, 2, masking=masking)
  assert result == expected
  for folder in ("one", "two"):
    names = [".a.blocks", ".b.blocks", ".c.blocks", "a", "b", "c"]
    assert sorted(os.listdir(tmp_path / folder)) == names
  # Records go to the files in turn, across shards, too.
  _records(tmp_path / "single", paths, 1, masking=masking, names="a")
  [records] = _read(tmp_path / "single", "a")
  assert len(records) == expected[0]
  parts = [records[start::3] for start in range(3)]
  assert _read(tmp_path / "one", "abc") == parts


def _read(folder, names):
  return [
    list(tf.data.TFRecordDataset(str(folder / name)).as_numpy_iterator())
    for name in names
  ]


BLANK = {"empty": "", "line": "\n", "blanks": " \t\n\n  ", "none": None}


@pytest.mark.parametrize("content", BLANK)
@pytest.mark.parametrize("layout", ["lines", "paragraphs", "documents"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\r\n"])
def test_a_document_ends_with_its_file(tmp_path, layout, content, end):
  """The next file may be blank, and the last blank line may be missing."""
  texts = {"a": f"Owls hunt.{end}", "b": BLANK[content], "c": f"Bats fly.{end}"}
  paths = []
  for name, text in texts.items():
    if text is not None:
      (tmp_path / name).write_bytes(text.encode())
      paths.append(str(tmp_path / name))
  [shard] = documents.split_corpus(paths, TextFormat(layout))
  lines = shard.lines(TextFormat(layout))
  expected = [["Owls hunt."], ["Bats fly."]]
  assert [*documents.split_documents(lines)] == expected
  progress = Progress("", 0, "", log=str)
  builder = instances.RecordBuilder(corpus.build_config())
  again = shard.lines(TextFormat(layout))
  assert len(builder.documents(again, progress)) == 2
