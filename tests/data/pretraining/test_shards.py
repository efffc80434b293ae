"""Records of workers (tests/parity covers a single process), and previews."""

import gzip
import json
import os
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from data import features, vocab
from data.features import Masking
from data.pretraining import documents, instances, shards
from data.pretraining.documents import TextFormat
from data.pretraining.instances import InstanceConfig
from data.records import parser
from data.tokenization import FullTokenizer
from storage import record_scan, textfiles
from tests.data.pretraining import corpus
from tests.data.pretraining.corpus import as_text, random_documents, random_text


def test_the_number_of_a_shard_and_the_seed_change_its_records(tmp_path):
  """Equal random numbers would mask every shard at the same positions."""
  path = tmp_path / "text.txt"
  path.write_text(random_text(9))
  [shard] = documents.split_corpus([str(path)], TextFormat())

  def records(number, seed):
    builder = instances.RecordBuilder(corpus.build_config(seed=seed))
    return shards.build_shard(builder, shard._replace(number=number))[0]

  first = records(0, 1)
  assert first == records(0, 1)
  assert not set(first) & {*records(1, 1), *records(0, 2)}


def _records(folder, paths, processes, names="abc", **changes):
  """Writes records; returns their number and the content of each file.

  With 0 processes, this process first reads all documents into memory.
  """
  config = corpus.build_config(**changes)
  outputs = [str(folder / name) for name in names]
  write, workers = instances.write_in_memory, ()
  if processes:
    write, workers = shards.write_shards, (processes,)
  count = write(config, paths, outputs, *workers)
  return count, [Path(output).read_bytes() for output in outputs]


def test_a_single_document_causes_a_warning(tmp_path, caplog, split):
  (tmp_path / "book").write_text("Owls hunt at night.\n" * 300)
  split([], 100)
  for workers, parts in ((0, "1 of 1 part"), (1, "2 of 2 parts")):
    _records(tmp_path, [str(tmp_path / "book")] * 2, workers)
    assert f"{parts} of the text: one document, also" in caplog.text


def test_duplicate_documents_are_dropped_in_all_shards(tmp_path, monkeypatch):
  monkeypatch.setattr(documents, "_MIN_BYTES", 4000)
  once, more = random_documents(60), random_documents(9, seed=2)
  (tmp_path / "again").write_text(as_text([*once, *more, *once]))
  paths = [str(tmp_path / "again")]
  first, second = (
    _records(tmp_path / str(n), paths, n, deduplicate=True) for n in (1, 2)
  )
  assert first == second
  text_shards = documents.split_corpus(paths, TextFormat())
  marked = shards._mark_duplicates(text_shards, TextFormat(), 1)
  assert sum(len(shard.dropped) for shard in marked) == len(once)
  assert marked[0].dropped == ()
  assert first[0] < 0.7 * _records(tmp_path / "all", paths, 1)[0]


def test_temporary_files_lie_near_the_output_and_vanish(tmp_path, monkeypatch):
  monkeypatch.setattr(documents, "_MIN_BYTES", 4000)
  build, numbers = shards.build_shard, []

  def count_files(*arguments):
    [folder] = tmp_path.glob("a.parts-*")
    numbers.append(len([*folder.iterdir()]))
    return build(*arguments)

  monkeypatch.setattr(shards, "build_shard", count_files)
  (tmp_path / "text").write_text(as_text(random_documents(60)))
  _records(tmp_path, [str(tmp_path / "text")], 1)
  assert len(numbers) > 2 and max(numbers) == 0


@pytest.mark.parametrize("masking", [corpus.MASKING, None])
def test_several_workers_write_the_same_records(masking, tmp_path, monkeypatch):
  monkeypatch.setattr(documents, "_MIN_BYTES", 4000)
  (tmp_path / "text").write_text(random_text(60, 4))
  paths = [str(tmp_path / "text")]
  assert len(documents.split_corpus(paths, TextFormat())) > 2
  expected = _records(tmp_path / "one", paths, 1, masking=masking)
  assert _records(tmp_path / "two", paths, 2, masking=masking) == expected
  for folder in (tmp_path / "one", tmp_path / "two"):
    names = [".a.blocks", ".b.blocks", ".c.blocks", "a", "b", "c"]
    assert sorted(os.listdir(folder)) == names
    mark = record_scan.read_index(str(folder / "a"))[1]
    assert mark == corpus.build_config().tokenizer.fingerprint
  # Records go to the files in turn. A new shard begins with the next file.
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


@pytest.mark.parametrize("content", ["", "\n", " \t\n\n  ", None])
@pytest.mark.parametrize("layout", ["lines", "paragraphs", "documents"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\r\n"])
def test_a_document_ends_with_its_file(tmp_path, layout, content, end):
  """The next file may be blank, and the last blank line may be missing."""
  paths = []
  for text in (f"Owls hunt.{end}", content, f"Bats fly.{end}"):
    if text is not None:
      paths.append(str(tmp_path / f"{len(paths)}"))
      Path(paths[-1]).write_bytes(text.encode())
  [shard] = documents.split_corpus(paths, TextFormat(layout))
  lines = [*shard.lines(TextFormat(layout))]
  assert [*documents.split_documents(lines)] == [["Owls hunt."], ["Bats fly."]]
  builder = instances.RecordBuilder(corpus.build_config())
  assert len(builder.documents(lines, corpus.SILENT())) == 2


# --- Files in shards: each format, and each document once --------------------


@pytest.fixture
def split(monkeypatch):
  """Returns a function that divides files into shards of a given size."""

  def split(paths, size, text_format=None):
    monkeypatch.setattr(documents, "_MIN_BYTES", size)
    monkeypatch.setattr(documents, "_MAX_BYTES", size)
    return documents.split_corpus(paths, text_format or TextFormat())

  return split


def test_the_sentences_do_not_depend_on_the_format_of_the_file(tmp_path, split):
  documents = random_documents(60)
  expected = [line for document in documents for line in document]
  texts = [" ".join(document) for document in documents]
  rows = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
  json_lines = TextFormat("documents", "text")
  for name, text_format, content in (
    ("lines", TextFormat(), as_text(documents).encode()),
    ("paragraphs", TextFormat("paragraphs"), "\n\n".join(texts).encode()),
    ("rows.jsonl", json_lines, rows),
    ("rows.jsonl.gz", json_lines, gzip.compress(rows)),
  ):
    (tmp_path / name).write_bytes(content)
    corpus = split([str(tmp_path / name)], 2000, text_format)
    assert (len(corpus) > 3) == (not name.endswith("gz")), name
    lines = (line for shard in corpus for line in shard.lines(text_format))
    assert [*filter(None, lines)] == expected, name


@pytest.mark.parametrize(
  ("kilobytes", "files_of_shards"),
  [
    (100, [6] * 10 + [4]),  # the limit is 1 MiB at least
    (600, [2] * 32),  # a 32nd of the text
    (600, [1] * 63),  # a 32nd is less than two files
    (1024, [2] * 32),
    (1350, [2] * 32),
    (1400, [1] * 64),  # the limit is 4 MiB at most
  ],
)
def test_a_shard_is_limited_to_a_32nd_of_the_text_between_1_and_4_mebibytes(
  kilobytes, files_of_shards, tmp_path
):
  """Records depend on this limit. A compressed file counts 3 times its size."""
  number = sum(files_of_shards)
  paths = [str(tmp_path / f"{index}.gz") for index in range(number)]
  for path in paths:
    with open(path, "wb") as file:
      file.truncate(1024 * kilobytes // 2)  # counts 1.5 * kilobytes
  corpus = documents.split_corpus(paths, TextFormat())
  assert [len(shard.spans) for shard in corpus] == files_of_shards


def test_a_file_of_more_than_one_and_a_half_shards_is_divided(tmp_path, split):
  path = tmp_path / "text"
  for size, number in ((150, 1), (152, 2)):
    path.write_text("a\n\n" * (size // 3) + "\n" * (size % 3))
    assert len(split([str(path)], 100)) == number


def test_a_file_that_is_a_document_is_not_divided(tmp_path, split):
  (tmp_path / "book").write_text("Owls hunt at night.\n\n" * 9)
  [shard] = split([str(tmp_path / "book")], 60, TextFormat("documents"))
  assert str(shard) == f"{tmp_path}/book"


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
  # 3.txt is one document of 10,000 bytes. No other shard has twice the size.
  assert max(s.megabytes for s in corpus if "3.txt" not in str(s)) < 6000 / 1e6


# --- Previews ----------------------------------------------------------------

WORDS = vocab.load(corpus.VOCAB_FILE)
LINES = ["photosynthesis museum", "forgot computer", "bridge", "gallon"] * 3


@pytest.fixture(name="text")
def _text(tmp_path):
  path = tmp_path / "text.txt"
  path.write_text("\n".join([*LINES, "", ""]) * 5)
  return str(path)


def _config(**masking):
  instance = InstanceConfig(24, Masking(5, **masking), dupe_factor=4)
  return instances.BuildConfig(FullTokenizer(corpus.VOCAB_FILE), instance, 3)


@pytest.mark.parametrize("whole_word", [False, True])
def test_the_preview_counts_pairs_and_masks(text, tmp_path, whole_word):
  config = _config(whole_word=whole_word)
  output = str(tmp_path / "records")
  number = instances.write_in_memory(config, [text], [output])
  parse = parser(features.pretraining(24, 5))
  columns = parse(list(tf.data.TFRecordDataset(output)))
  records = {name: column.numpy() for name, column in columns.items()}
  labels, positions = records["masked_lm_ids"], records["masked_lm_positions"]
  shown = np.take_along_axis(records["input_ids"], positions, 1)
  used = records["masked_lm_weights"] > 0
  is_mask = used & (shown == WORDS[vocab.MASK])
  same = used & (shown == labels)
  *_, pairs, masks = shards.preview(config, [text], 0, corpus.MASKING)
  numbers = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) \(", masks)]
  other = used.sum() - is_mask.sum() - same.sum()
  assert numbers == [used.sum(), is_mask.sum(), other, same.sum()]
  random = records["next_sentence_labels"].sum()
  assert pairs.startswith(f"{number} instances: {number - random} (")
  assert f" {random} ({random / number:.1%}) with a random" in pairs
  tokens = records["input_mask"].sum()
  total = f"{used.sum()} ({used.sum() / tokens:.1%}) of {tokens:,} tokens are"
  assert masks.startswith(total)


def test_the_preview_shows_every_replacement(text):
  lines = [*shards.preview(_config(), [text], 2, corpus.MASKING)]
  assert lines[0].startswith("Instance 1: ")
  assert lines[1].startswith("  [CLS] ")
  assert lines[2].endswith(" [SEP]")
  row = " ".join(lines[1:3]).split()
  for line in lines[4 : lines.index("")]:
    position, token, shown = line.split()
    expected = token if shown == "(unchanged)" else shown
    assert row[int(position)] == expected
  assert sum(line.startswith("Instance") for line in lines) == 2


def test_the_preview_of_a_left_to_right_training_shows_next_tokens(text):
  options = corpus.MASKING, "left_to_right"
  lines = [*shards.preview(_config(), [text], 1, *options)]
  row = " ".join(lines[1:3]).split()
  assert lines[3].split() == ["position", "token", "predicts"]
  shown = [line.split()[1:] for line in lines[4 : lines.index("")]]
  assert shown == [[*pair] for pair in pairwise(row)]
  assert vocab.MASK not in row
  assert lines[-1].endswith("tokens predict the next one")


def test_masks_in_the_preview_of_unmasked_records_depend_on_the_seed(text):
  masking = Masking(7, 0.5, False, 1.0, 0.0)
  first, again, other = (
    [*shards.preview(corpus.build_config(None, seed), [text], 9, masking)]
    for seed in (1, 1, 2)
  )
  assert first == again != other
  assert " 0 (0.0%) unchanged" in first[-1]
  assert sum(line.endswith("  [MASK]") for line in first) > 9
