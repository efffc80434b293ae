"""Targets to fuzz: functions that read a file of the user, given its path.

For any content of the file, a target returns, or raises a ValueError or OSError
whose message is written for the user (cli/program.py).
"""

import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from conversion import download, hugging_face, keras_hub, model_garden
from data import features, labels, tables, vocab
from data.pretraining import instances, passages
from data.pretraining.documents import TextFormat
from data.tokenization import CachedTokenizer, FullTokenizer
from modeling.config import BertConfig
from storage import record_scan
from tasks.features import lines as text_lines
from tasks.multiple_choice import examples as multiple_choice_examples
from tasks.ner import examples as ner_examples
from tasks.ner import tagging as ner_tagging
from tasks.ner.schemes import Scheme
from tasks.squad import examples as squad_examples
from tasks.squad import records as squad_records
from tasks.squad.records import WindowConfig
from tests import programs
from tests.data.pretraining.corpus import SILENT
from tests.parity.golden_files import GOLDEN
from training import checkpoint, checkpoint_files

SCHEMA = features.pretraining(8, 2)


class Target(NamedTuple):
  """A reader of one kind of file."""

  file: str  # name of the file
  read: Callable[[str], None]  # reads the file at a path
  around: tuple[Path, ...] = ()  # other files that the folder must have
  example: Path | None = None  # a valid file, if the corpus has none


@cache
def _tokenizer() -> FullTokenizer:
  return FullTokenizer(str(GOLDEN / "vocab.txt"), True)


def _text(layout, field=None):
  def read(path):
    text = TextFormat(layout, field)
    config = instances.BuildConfig(
      _tokenizer(), instances.InstanceConfig(64), 1, text, True
    )
    result = instances.RecordBuilder(config).corpus([path], SILENT())
    sizes = [len(sentence) for document in result for sentence in document]
    assert layout == "lines" or max(sizes) <= 64  # lines are not divided

  return read


def _articles(path):
  articles = list(passages.read_wikipedia(path, SILENT()))
  passages.read_book(path, SILENT())
  assert all(map(str.strip, passage) for text in articles for passage in text)


def _vocabulary(path):
  words = vocab.load(path)
  vocab.check_tokens(words, vocab.SPECIAL_TOKENS, path)
  tokenizer = FullTokenizer(path, True)
  text = "Owls hunt unaffably, at night."
  ids = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))
  assert CachedTokenizer(tokenizer).ids(text) == ids


def _table(path):
  assert all(row.values for row in tables.read_table(path, ("text", "label")))


def _conll(path):
  sentences = ner_examples.read_sentences(path)
  tags = ner_tagging.tag_set(sentences)
  scheme = ner_tagging.find_scheme(sentences, tags)
  target = Scheme("BIOES")
  for sentence in sentences:
    converted = scheme.convert(sentence.tags, target)
    assert len(converted) == len(sentence.lines)


def _squad(path):
  read = squad_examples.read_examples
  examples = read([path], True, version_2_with_negative=True) + read([path])
  settings = WindowConfig(48, 16, 12)
  list(squad_records.make_windows(examples, _tokenizer(), settings))


def _text_lines(path):
  text_lines.count(path)
  files = {"input_file": path, "vocab_file": str(GOLDEN / "vocab.txt")}
  settings = programs.arguments("extract_features", max_seq_length=32, **files)
  for line in text_lines.read_lines(settings):
    assert 2 <= len(line.ids) <= 32


def _of_folder(read):
  """Turns a reader of a folder into a reader of a file in the folder."""
  return lambda path: read(os.path.dirname(path))


def _records(path):
  record_scan.load_index([path])
  head = record_scan.read_head(path)
  limits = {"input_ids": 50, "input_mask": 2}
  record_scan.check_record(path, head.record or {}, SCHEMA, limits)


def _checkpoint(path):
  shapes = checkpoint_files.shapes(path.removesuffix(".index"))
  reader = checkpoint.open_reader(path)
  reader.verify()
  assert shapes == {name: tuple(s) for name, s in reader.shapes.items()}


def _module(path):
  variables = Path(path).parent / "variables"
  variables.mkdir(exist_ok=True)
  for file in (_DATA, _DATA.with_name(_INDEX)):
    name = file.name.replace("bert_model.ckpt", "variables")
    shutil.copyfile(file, variables / name)
  model_garden.read_module(str(variables.parent))


def _archive(path):
  copy = shutil.copyfile(path, f"{path}.zip")  # unpack removes a broken file
  shutil.rmtree(os.path.join(os.path.dirname(path), "unpacked"), True)
  download.unpack("https://host/model.zip", copy)


_safetensors = _of_folder(hugging_face.read)
_h5 = _of_folder(keras_hub.read)
CORPUS = Path(__file__).parent / "corpus"
_PRESET = Path(__file__).parents[1] / "conversion/golden/keras_hub/preset"
_CONFIG, _WEIGHTS = _PRESET / "config.json", _PRESET / "model.weights.h5"
_INDEX = "bert_model.ckpt.index"
_DATA = GOLDEN / "training/bert_model.ckpt.data-00000-of-00001"

TARGETS = {
  "lines": Target("a text.txt", _text("lines")),
  "prose": Target("text.txt", _text("documents")),
  "json_lines": Target("rows.jsonl", _text("paragraphs", "text")),
  "articles": Target("wiki_00", _articles),
  "gzip": Target("text.gz", _text("lines")),
  "zstd": Target("text.zst", _text("lines")),
  "vocab": Target("vocab.txt", _vocabulary),
  "config": Target("bert_config.json", BertConfig.from_json),
  "tsv": Target("Tabelle für alle.tsv", _table),
  "csv": Target("table.csv", _table),
  "jsonl": Target("table.jsonl", _table),
  "swag": Target("val.csv", multiple_choice_examples.read_examples),
  "conll": Target("dev.txt", _conll),
  "tagged_json": Target("dev.jsonl", _conll),
  "squad": Target("dev.json", _squad),
  "text_lines": Target("texts", _text_lines),
  "labels": Target("labels.txt", _of_folder(labels.load)),
  "records": Target("examples.tfrecord", _records),
  "corruption": Target(
    "examples.tfrecord", lambda path: record_scan.first_corrupt([path], SCHEMA)
  ),
  "checkpoint": Target(
    "bert_model.ckpt.index", _checkpoint, (_DATA,), _DATA.with_name(_INDEX)
  ),
  "hf_config": Target(
    "config.json", _safetensors, (CORPUS / "safetensors/model.safetensors",)
  ),
  "safetensors": Target(
    "model.safetensors", _safetensors, (CORPUS / "hf_config/config.json",)
  ),
  "hub_config": Target("config.json", _h5, (_WEIGHTS,), _CONFIG),
  "saved_model": Target("saved_model.pb", _module),
  "zip": Target("model", _archive),
  "hdf5": Target("model.weights.h5", _h5, (_CONFIG,), _WEIGHTS),
}


def prepare(name: str, folder: str) -> str:
  """Puts what a target needs into a folder; returns the path to read."""
  for path in TARGETS[name].around:
    shutil.copy(path, folder)
  return os.path.join(folder, TARGETS[name].file)


def seeds(name: str) -> list[bytes]:
  """Returns contents to start from: examples, and inputs that once failed."""
  paths = sorted((CORPUS / name).glob("*"))
  example = TARGETS[name].example
  return [path.read_bytes() for path in [example, *paths] if path]
