"""Pairs, static masks, worker processes; parity is in tests/parity."""

import os
from functools import partial
from pathlib import Path
from random import Random

import pytest

from data.pretraining import builders, instances, shards, static_masking
from data.pretraining.builders import BuildConfig
from data.pretraining.instances import InstanceConfig
from data.pretraining.static_masking import MaskPolicy, StaticMasking
from data.vocab import load
from storage import files
from storage.progress import Progress

VOCAB_FILE = str(Path(__file__).parents[2] / "parity/golden/vocab.txt")
# Probabilities of table 8 of the paper, row by row.
MASK_POLICIES = [
  MaskPolicy(*probs)
  for probs in ((0.8, 0.1), (1, 0), (0.8, 0), (0.8, 0.2), (0, 0.8), (0, 1))
]
SILENT = partial(Progress, "", 0, "", log=lambda text: None)


@pytest.fixture(scope="module")
def vocab():
  return load(VOCAB_FILE)


def _documents(rng, count=20):
  """Documents whose tokens are all the number of the document."""
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


# --- draws of random.Random -------------------------------------------------


@pytest.mark.parametrize("size", [*range(0, 20), 63, 64, 65, 127, 128, 1000])
def test_draws_are_those_of_the_library(size):
  rng, expected = Random(size), Random(size)
  items, shuffled = list(range(size)), list(range(size))
  static_masking.shuffle(rng.getrandbits, items)
  expected.shuffle(shuffled)
  assert items == shuffled
  for limit in range(1, 40):
    drawn = static_masking.randbelow(rng.getrandbits, limit)
    assert drawn == expected.randint(0, limit - 1)
  assert rng.getstate() == expected.getstate()


# --- pairs ------------------------------------------------------------------


@pytest.mark.parametrize("length", [5, 6, 16, 128])
@pytest.mark.parametrize("short", [0.0, 0.5, 1.0])
def test_pairs_fit_and_random_ones_are_labelled(length, short):
  rng = Random(3)
  settings = InstanceConfig(length, short_seq_prob=short)
  documents = _documents(rng)
  random = total = 0
  for index in range(len(documents)):
    for first, second, is_random in instances.sentence_pairs(
      documents, index, rng, settings
    ):
      assert first
      assert second
      assert len(first) + len(second) <= length - 3
      assert set(first) == {1000 + index}
      assert (set(second) == set(first)) == (not is_random)
      random, total = random + is_random, total + 1
  # Half are drawn, and a single segment is always paired with a random one.
  assert random / total > 0.45


def test_no_token_is_lost_without_truncation():
  document = [[i] for i in range(2, 40)]
  settings = InstanceConfig(13, short_seq_prob=0)
  rng = Random(1)
  seen = []
  for first, second, is_random in instances.sentence_pairs(
    [document, [[1]]], 0, rng, settings
  ):
    seen += first if is_random else first + second
  assert seen == [token for segment in document for token in segment]


# --- static masks -----------------------------------------------------------


@pytest.mark.parametrize("whole_word", [False, True])
@pytest.mark.parametrize("policy", MASK_POLICIES, ids=str)
def test_static_masks_of_100_000_tokens(vocab, whole_word, policy):
  rng = Random(7)
  mask = StaticMasking(vocab, 20, whole_word=whole_word, mask_policy=policy)
  cls, sep, mask_id = vocab["[CLS]"], vocab["[SEP]"], vocab["[MASK]"]
  total = chosen = masks = unchanged = 0
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
    unchanged += sum(i == label for i, label in zip(now, labels, strict=True))
  assert chosen / total == pytest.approx(0.15, abs=0.01)
  same = 1 - policy.mask_token_prob - policy.random_token_prob
  assert masks / chosen == pytest.approx(policy.mask_token_prob, abs=0.01)
  assert unchanged / chosen == pytest.approx(same, abs=0.01)


def test_the_defaults_compare_with_the_originals_numbers():
  assert (MaskPolicy().mask_token_prob, MaskPolicy().keep_prob) == (0.8, 0.5)


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
    InstanceConfig(**change)


def test_a_single_document_is_warned_about(vocab, caplog):
  builder = instances.InstanceBuilder(
    vocab, InstanceConfig(16, 3, dupe_factor=1)
  )
  documents = [[[2000, 2001], [2002], [2003] * 9]]
  records, samples = builder.records(documents, Random(1), SILENT())
  assert records
  assert all(text.startswith("tokens: [CLS]") for text in samples)
  assert "single document" in caplog.text


# --- shards and workers -----------------------------------------------------


def test_shards_hold_every_document_once(tmp_path):
  texts = [_text(60, 1), _text(1, 2), _text(2, 3), "x\n" * 5000, ""]
  paths = []
  for i, text in enumerate(texts):
    paths.append(str(tmp_path / f"{i}.txt"))
    Path(paths[-1]).write_text(text)
  corpus = shards.split_corpus(paths, size=3000)
  assert len(corpus) > 3
  assert [shard.number for shard in corpus] == list(range(len(corpus)))
  read = dict.fromkeys(paths, "")
  for shard in corpus:
    for path, start, end, _ in shard.spans:
      assert len(read[path].encode()) == start
      if start:
        assert read[path].endswith("\n\n")
      read[path] += "".join(f"{i}\n" for i in files.lines(path, start, end))
  assert list(read.values()) == texts
  largest = max(s.megabytes for s in corpus if "3.txt" not in str(s))
  assert largest < 6000 / 1e6


def _write(folder, paths, names, processes, **settings):
  settings = InstanceConfig(32, 5, dupe_factor=2, **settings)
  outputs = [str(folder / name) for name in names]
  config = BuildConfig(VOCAB_FILE, True, settings, 1)
  count = builders.write_shards(config, paths, outputs, processes)
  return count, [Path(output).read_bytes() for output in outputs]


@pytest.mark.parametrize("masked", [True, False])
def test_any_number_of_workers_makes_the_same_files(
  masked, tmp_path, monkeypatch
):
  monkeypatch.setattr(shards, "_MIN_BYTES", 4000)
  text = tmp_path / "text"
  text.write_text(_text(60, 4))
  paths = [str(text)]
  assert len(shards.split_corpus(paths)) > 2
  expected = _write(tmp_path / "one", paths, "abc", 1, masked=masked)
  result = _write(tmp_path / "two", paths, "abc", 2, masked=masked)
  assert result == expected
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
