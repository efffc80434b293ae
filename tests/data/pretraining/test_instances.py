"""Pairs, static masks, and many processes; parity is in tests/parity."""

import os
from functools import partial
from pathlib import Path
from random import Random

import pytest

from data import files, workers
from data.pretraining import instances, parts, sampling, shards
from data.pretraining.instances import Settings
from data.pretraining.mix import Mix
from data.pretraining.parts import Job
from data.pretraining.static_masking import StaticMasking
from data.progress import Progress
from data.vocab import load

VOCAB_FILE = str(Path(__file__).parents[2] / "parity/golden/vocab.txt")
# Mask and random share of table 8 of the paper, row by row.
ALL_MIXES = [
  Mix(*shares)
  for shares in ((0.8, 0.1), (1, 0), (0.8, 0), (0.8, 0.2), (0, 0.8), (0, 1))
]
SILENT = partial(Progress, "", 0, "", log=lambda text: None)


@pytest.fixture(scope="module")
def vocab():
  return load(VOCAB_FILE)


def _documents(rng, count=20):
  """Every token of a document is its own number, so origins can be told."""
  return [
    [[1000 + i] * rng.randint(1, 30) for _ in range(rng.randint(1, 12))]
    for i in range(count)
  ]


def _text(documents, seed):
  rng = Random(seed)
  words = [
    "the",
    "a",
    "of",
    "bank",
    "river",
    "unaffable",
    "runs",
    "sees",
    "old",
    "new",
  ]
  return "".join(
    "".join(
      " ".join(rng.choices(words, k=rng.randint(3, 20))) + ".\n"
      for _ in range(rng.randint(1, 9))
    )
    + "\n"
    for _ in range(documents)
  )


# --- sampling ---------------------------------------------------------------


@pytest.mark.parametrize("size", [*range(0, 20), 63, 64, 65, 127, 128, 1000])
def test_draws_are_those_of_the_library(size):
  ours, theirs = Random(size), Random(size)
  mine, golden = list(range(size)), list(range(size))
  sampling.shuffle(ours.getrandbits, mine)
  theirs.shuffle(golden)
  assert mine == golden
  for limit in range(1, 40):
    drawn = sampling.below(ours.getrandbits, limit)
    assert drawn == theirs.randint(0, limit - 1)
  assert ours.getstate() == theirs.getstate()


# --- pairs ------------------------------------------------------------------


@pytest.mark.parametrize("length", [5, 6, 16, 128])
@pytest.mark.parametrize("short", [0.0, 0.5, 1.0])
def test_pairs_fit_and_tell_where_they_are_from(length, short):
  rng = Random(3)
  settings = Settings(length, short_seq_prob=short)
  documents = _documents(rng)
  random = total = 0
  for index in range(len(documents)):
    for first, second, is_random in instances.pairs(
      documents, index, rng, settings
    ):
      assert first
      assert second
      assert len(first) + len(second) <= length - 3
      assert set(first) == {1000 + index}
      assert (set(second) == set(first)) == (not is_random)
      random, total = random + is_random, total + 1
  # Half by the coin, and a lone segment always goes with a random one.
  assert random / total > 0.45


def test_no_token_is_lost_where_nothing_is_cut():
  document = [[i] for i in range(2, 40)]
  settings = Settings(13, short_seq_prob=0)
  rng = Random(1)
  seen = []
  for first, second, is_random in instances.pairs(
    [document, [[1]]], 0, rng, settings
  ):
    seen += first if is_random else first + second
  assert seen == [token for segment in document for token in segment]


# --- static masks -----------------------------------------------------------


@pytest.mark.parametrize("whole_word", [False, True])
@pytest.mark.parametrize("mix", ALL_MIXES, ids=str)
def test_static_shares_over_100_000_tokens(vocab, whole_word, mix):
  rng = Random(7)
  mask = StaticMasking(vocab, 20, whole_word=whole_word, mix=mix)
  cls, sep, mask_id = vocab["[CLS]"], vocab["[SEP]"], vocab["[MASK]"]
  total = chosen = masks = kept = 0
  for _ in range(800):
    words = [rng.randint(2000, 28000) for _ in range(125)]
    ids = [cls, *words[:60], sep, *words[60:], sep]
    before = list(ids)
    positions, labels = mask(ids, rng)
    assert positions == sorted(set(positions))
    assert not {0, 61, 127} & set(positions)
    assert [before[i] for i in positions] == labels
    now = [ids[i] for i in positions]
    for position, label in zip(positions, labels, strict=True):
      ids[position] = label
    assert ids == before
    total, chosen = total + len(ids), chosen + len(labels)
    masks += now.count(mask_id)
    kept += sum(i == label for i, label in zip(now, labels, strict=True))
  assert chosen / total == pytest.approx(0.15, abs=0.01)
  same = 1 - mix.mask_share - mix.random_share
  assert masks / chosen == pytest.approx(mix.mask_share, abs=0.01)
  assert kept / chosen == pytest.approx(same, abs=0.01)


def test_the_defaults_compare_with_the_originals_numbers():
  assert (Mix().mask_share, Mix().same_of_rest) == (0.8, 0.5)


# --- settings ---------------------------------------------------------------


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"max_seq_length": 4}, "max_seq_length 4 is too short"),
    ({"max_predictions_per_seq": 0}, "max_predictions_per_seq 0 must be 1"),
    ({"dupe_factor": 0}, "dupe_factor 0 must be 1"),
    ({"masked_lm_prob": 1.1}, "masked_lm_prob 1.1 is not within 0 and 1"),
    ({"short_seq_prob": -0.1}, "short_seq_prob -0.1 is not within 0 and 1"),
  ],
)
def test_impossible_settings_are_refused(change, message):
  with pytest.raises(ValueError, match=message):
    Settings(**change)


def test_a_single_document_is_warned_about(vocab, caplog):
  builder = instances.Builder(vocab, Settings(16, 3, dupe_factor=1))
  documents = [[[2000, 2001], [2002], [2003] * 9]]
  assert builder.records(documents, Random(1), SILENT())
  assert "single document" in caplog.text


# --- shards and workers -----------------------------------------------------


def test_shards_hold_every_document_once(tmp_path):
  texts = [_text(60, 1), _text(1, 2), _text(2, 3), "x\n" * 5000, ""]
  paths = []
  for i, text in enumerate(texts):
    paths.append(str(tmp_path / f"{i}.txt"))
    Path(paths[-1]).write_text(text)
  cut = shards.cut(paths, size=3000)
  assert len(cut) > 3
  assert [shard.number for shard in cut] == list(range(len(cut)))
  read = dict.fromkeys(paths, "")
  for shard in cut:
    for path, start, end, _ in shard.spans:
      assert len(read[path].encode()) == start
      if start:
        assert read[path].endswith("\n\n")
      read[path] += "".join(f"{i}\n" for i in files.lines(path, start, end))
  assert list(read.values()) == texts
  largest = max(s.megabytes for s in cut if "3.txt" not in str(s))
  assert largest < 6000 / 1e6


def _write(folder, paths, names, processes, **settings):
  settings = Settings(32, 5, dupe_factor=2, **settings)
  outputs = [str(folder / name) for name in names]
  job = Job(VOCAB_FILE, True, settings, 1)
  count = parts.write(job, paths, outputs, processes)
  return count, [Path(output).read_bytes() for output in outputs]


@pytest.mark.parametrize("masked", [True, False])
def test_any_number_of_workers_makes_the_same_files(
  masked, tmp_path, monkeypatch
):
  monkeypatch.setattr(shards, "_SMALLEST", 4000)
  text = tmp_path / "text"
  text.write_text(_text(60, 4))
  paths = [str(text)]
  assert len(shards.cut(paths)) > 2
  one = _write(tmp_path / "one", paths, "abc", 1, masked=masked)
  two = _write(tmp_path / "two", paths, "abc", 2, masked=masked)
  assert one == two
  for folder in ("one", "two"):
    assert sorted(os.listdir(tmp_path / folder)) == ["a", "b", "c"]


def test_an_error_in_a_worker_leaves_nothing(tmp_path):
  text = tmp_path / "latin1.txt"
  text.write_bytes(b"caf\xe9\n")
  with pytest.raises(ValueError, match=r"latin1\.txt, line 1"):
    _write(tmp_path / "out", [str(text)], "a", 1)
  assert os.listdir(tmp_path / "out") == []


def test_text_without_tokens_is_an_error(tmp_path):
  text = tmp_path / "blank.txt"
  text.write_text(" \n\n")
  with pytest.raises(ValueError, match=r"there is no text in .*blank\.txt"):
    _write(tmp_path / "out", [str(text)], "a", 1)
  assert os.listdir(tmp_path / "out") == []


def _double_or_die():
  return lambda task: os._exit(9) if task == "deadly.txt" else task * 2


def test_results_come_with_their_numbers():
  tasks = ["a", "b", "c", "d"]
  done = dict(workers.run(_double_or_die, tasks, 2))
  assert done == {0: "aa", 1: "bb", 2: "cc", 3: "dd"}


def test_a_dead_worker_is_an_error_that_names_its_task():
  with pytest.raises(ChildProcessError, match=r"worked on deadly\.txt"):
    list(workers.run(_double_or_die, ["a", "deadly.txt", "c"], 2))
