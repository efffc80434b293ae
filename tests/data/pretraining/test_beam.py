import os
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip(
  "apache_beam", reason="needs `pip install -r requirements-beam.txt`"
)

from data.pretraining import beam, documents, shards
from data.pretraining.documents import TextFormat
from data.pretraining.vocab_learning import WordCounter
from storage import UserError, record_scan, tfrecord
from tests.data.pretraining import corpus

SINGLE = ["--runner=DirectRunner"]
MANY, PROCESSES = (
  [*SINGLE, "--direct_num_workers=3", f"--direct_running_mode=multi_{kind}"]
  for kind in ("threading", "processing")
)
# Unlike the runner above, this runner retries failed bundles, as clusters do.
RETRYING = [
  "--runner=apache_beam.runners.direct.direct_runner.BundleBasedDirectRunner"
]


@pytest.fixture(name="text")
def _text(tmp_path, monkeypatch):
  monkeypatch.setattr(documents, "_MIN_BYTES", 3000)
  some = corpus.random_documents(60)
  path = tmp_path / "a text"
  path.write_text(corpus.as_text([*some, *some[:9]]))
  return str(path)


def _local(config, text, folder):
  output = str(folder / "local")
  count = shards.write_shards(config, [text], [output], 1)
  return count, Path(output).read_bytes()


def _by_beam(config, text, folder, options):
  output = str(folder / "new" / "with [brackets]")
  count = beam.write(config, [text], output, options)
  names = sorted(beam.outputs(output))
  assert len(names) > 3
  indexes = map(tfrecord.index_path, names)
  assert {*map(str, (folder / "new").iterdir())} == {*names, *indexes}
  assert record_scan.read_index(names[0])[1] == config.tokenizer.fingerprint
  return count, b"".join(Path(name).read_bytes() for name in names)


@pytest.mark.parametrize("options", [SINGLE, MANY, PROCESSES, RETRYING])
def test_beam_makes_the_same_records_as_local_workers(options, text, tmp_path):
  deduplicate = options is not SINGLE  # one pipeline keeps duplicates
  config = corpus.build_config(dupe_factor=2, deduplicate=deduplicate)
  expected = _local(config, text, tmp_path)
  assert _by_beam(config, text, tmp_path, options) == expected


def test_a_retried_bundle_leaves_no_duplicates(text, tmp_path, monkeypatch):
  failed = set()
  process = beam._WriteShard.process

  def once(self, shard):
    yield from process(self, shard)
    if len(failed) < 3 and shard.number not in failed:
      failed.add(shard.number)
      raise RuntimeError("the machine is gone")

  monkeypatch.setattr(beam._WriteShard, "process", once)
  result = _by_beam(corpus.build_config(), text, tmp_path, RETRYING)
  assert len(failed) == 3
  assert result[1] == _local(corpus.build_config(), text, tmp_path)[1]


@pytest.mark.parametrize(
  ("text", "message"),
  [
    (b"fine\n\nol\xe9\n", r"pipeline failed: \S*text, line 3: byte 8 .*iconv"),
    (b" \n\n", "there is no text in"),
  ],
)
def test_an_error_names_the_line_and_leaves_no_file(text, message, tmp_path):
  path, output = tmp_path / "text", str(tmp_path / "out")
  path.write_bytes(text)
  with pytest.raises(ValueError, match=message):
    beam.write(corpus.build_config(), [str(path)], output, SINGLE)
  assert os.listdir(tmp_path) == ["text"]


def test_an_unknown_runner_is_named(text, tmp_path):
  with pytest.raises(UserError, match="Unexpected pipeline runner: Foo"):
    beam.write(corpus.build_config(), [text], f"{tmp_path}/o", ["--runner=Foo"])


def test_files_of_an_earlier_run_are_removed(text, tmp_path):
  (tmp_path / "new").mkdir()
  (tmp_path / "new/with [brackets]-00007-of-00099").write_text("old")
  # _by_beam checks that the folder has only files of the new run.
  _by_beam(corpus.build_config(), text, tmp_path, SINGLE)


def test_beam_counts_the_same_words_as_one_process(text, tmp_path):
  expected, counter = WordCounter(True, 1000), WordCounter(True, 1000)
  for line in TextFormat().lines(text):
    expected.add(line)
  beam.count_words([text], TextFormat(), counter, str(tmp_path / "v"), SINGLE)
  assert counter.counts() == expected.counts() != Counter()
  assert list(counter.counts()) == sorted(counter.counts())
  assert os.listdir(tmp_path) == ["a text"]
