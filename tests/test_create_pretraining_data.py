"""create_pretraining_data.py runs as a command, and reports mistakes."""

import gzip
import importlib
import json
import sys

import pytest
import tensorflow as tf

from data import features, records
from tests import programs
from tests.parity.golden_files import GOLDEN

TEXT = GOLDEN / "pretraining_data/single_sentences.txt"
FLAGS = {"input_file": TEXT, "vocab_file": GOLDEN / "vocab.txt"}


def _run(*flags, **changes):
  return programs.run("create_pretraining_data", *flags, **FLAGS | changes)


def _fails(message, *flags, **changes):
  programs.fails("create_pretraining_data", message, *flags, **FLAGS | changes)


def _count(path, schema):
  """Counts the records of a file, and checks each against the schema."""
  serialized = list(tf.data.TFRecordDataset(str(path)))
  return len(records.parser(schema)(serialized)["input_ids"])


COMMAND = """--input_file=./sample_text.txt --do_lower_case=True
--max_seq_length=128 --max_predictions_per_seq=20 --masked_lm_prob=0.15
--random_seed=12345 --dupe_factor=5"""


def test_the_command_in_the_originals_readme_runs_unchanged(tmp_path):
  output = tmp_path / "new" / "tf_examples.tfrecord"
  paths = f"--output_file={output}", f"--vocab_file={GOLDEN / 'vocab.txt'}"
  log = programs.run("create_pretraining_data", *COMMAND.split(), *paths)
  number = _count(output, features.pretraining(128, 20))
  for text in (str(output), f"Wrote {number} instances"):
    assert text in log
  assert "tensorflow" not in log.lower()
  assert number >= 5 * 5  # --dupe_factor=5, and the text has five documents


def test_dynamic_masking_leaves_records_unmasked(tmp_path):
  outputs = f"{tmp_path}/a,{tmp_path}/b"
  log = _run(output_file=outputs, masking="dynamic")
  schema = features.pretraining(128)
  first, second = (_count(path, schema) for path in outputs.split(","))
  assert first - second in (0, 1)  # the files get instances in turn
  assert f"Wrote {first + second} instances" in log


def test_prose_in_compressed_json_lines_is_read(tmp_path):
  text = tmp_path / "Bücher und mehr.jsonl.gz"
  rows = [
    {"body": "Owls hunt at night. Foxes, too.\nMice hide. They do!"},
    {"body": "* * * A river runs to the sea. 7. Boats go down the river."},
    # The first document again, with other blanks: this one is dropped.
    {"body": "Owls hunt at night. Foxes, too. Mice hide. They  do!"},
  ]
  text.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
  flags = {"input_format": "documents", "text_field": "body", "dupe_factor": 1}
  flags |= {"input_file": text, "deduplicate": True}
  for num_workers in (0, 2):
    output = tmp_path / str(num_workers)
    log = _run(**flags, output_file=output, num_workers=num_workers)
    assert _count(output, features.pretraining(128, 20)) >= 2
    assert "1 dropped documents" in log
    assert "2 documents" in log


LINES = [f"Owl {number} hunts at night." for number in range(1500)]


def test_documents_of_one_sentence_are_reported_once(tmp_path):
  text = tmp_path / "text"
  text.write_text("\n\n".join(LINES))
  flags = {"dupe_factor": 1, "num_workers": 2, "input_format": "paragraphs"}
  log = _run(**flags, input_file=text, output_file=tmp_path / "records")
  lines = [line for line in log.splitlines() if "WARNING" in line]
  [warning] = [line for line in lines if "one sentence" in line]
  assert "500 of the first 500 documents have one sentence" in warning
  assert "1,500 instances, 1,500 random next sentences" in log


def test_apache_beam_makes_the_records(tmp_path):
  pytest.importorskip("apache_beam")
  flags = {"output_file": tmp_path / "out", "runner": "DirectRunner"}
  log = _run(**flags, pipeline_options="--direct_num_workers=2")
  [path] = tmp_path.glob("out-*")
  assert path.name == "out-00000-of-00001"
  number = _count(path, features.pretraining(128, 20))
  assert f"Wrote {number} instances" in log
  _fails("out-00000-of-00001 exists already", **flags)
  text = tmp_path / "out-00001-of-00002"
  text.write_text("Owls hunt at night.\n")
  _fails("of-00002 is an input, too", "--overwrite", **flags, input_file=text)
  assert text.exists()


def test_an_error_says_how_to_install_apache_beam(monkeypatch):
  monkeypatch.setitem(sys.modules, "apache_beam", None)
  monkeypatch.delitem(sys.modules, "data.pretraining.beam", raising=False)
  with pytest.raises(ValueError, match="`pip install -r requirements-beam"):
    importlib.import_module("data.pretraining.beam")


@pytest.mark.parametrize(
  ("flags", "heading"),
  [
    ({"masking": "dynamic"}, "replaced by"),
    ({"preview_objective": "right_to_left"}, "predicts"),
  ],
)
def test_a_preview_prints_instances(flags, heading):
  flags = FLAGS | flags | {"preview": 2, "max_seq_length": 32}
  result = programs.call("create_pretraining_data", **flags)
  assert result.returncode == 0, result.stderr
  assert result.stdout.count("Instance ") == 2
  assert result.stdout.count(heading) == 2
