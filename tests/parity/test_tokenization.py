import gzip
import json
import unicodedata

import pytest
import tensorflow as tf

from data import normalization_ops, tokenization
from tests import shared
from tests.parity import golden_files

VOCAB = golden_files.GOLDEN / "vocab.txt"
TOKENS = golden_files.each("tokenization/tokens.jsonl")
CODE_POINTS = golden_files.each("tokenization/codepoints.json.gz")
SETTINGS = pytest.mark.parametrize("setting", ["lower", "cased"])
# From UNASSIGNED on, nearly all code points are unassigned or private. A range
# has one kind of code point, so a quick test tries only the ends of a range.
UNASSIGNED = 0x32000
# Marks, punctuation and controls that Unicode 15 (Python 3.12) added. Version
# 15.1 (Python 3.13) adds none.
UNICODE_15 = """
0ECE-0ECE 10EFD-10EFF 11241-11241 11B00-11B09 11F00-11F01 11F36-11F3A
11F40-11F40 11F42-11F4F 13439-13440 13447-13455 1E08F-1E08F 1E4EC-1E4EF
""".split()
EXTENT = pytest.mark.parametrize(
  "everywhere", [False, shared.slow(True)], ids=["assigned", "all"]
)


@SETTINGS
@TOKENS
def test_the_python_tokenizer_gives_the_original_tokens(path, setting):
  tokenizer = tokenization.FullTokenizer(VOCAB, setting == "lower")
  for case in golden_files.read_jsonl(path):
    assert tokenizer.tokenize(case["text"]) == case[setting], case["text"]


@SETTINGS
@TOKENS
def test_the_graph_tokenizer_gives_the_original_tokens(path, setting):
  tokenizer = tokenization.FullTokenizer(VOCAB, setting == "lower").in_graph()
  cases = golden_files.read_jsonl(path)
  ids = tokenizer.tokenize(tf.constant([case["text"] for case in cases]))
  for case, tokens in zip(cases, tokenizer.tokens(ids).to_list(), strict=True):
    assert [t.decode() for t in tokens] == case[setting], case["text"]


@EXTENT
@SETTINGS
@CODE_POINTS
def test_the_python_tokenizer_splits_code_points_like_the_original(
  path, setting, everywhere
):
  tokenize = tokenization.BasicTokenizer(setting == "lower").tokenize
  for code, expected in words_by_code_point(path, setting, everywhere):
    assert tokenize(f"a{chr(code)}b") == expected, hex(code)


@EXTENT
@SETTINGS
@CODE_POINTS
def test_the_graph_tokenizer_splits_code_points_like_the_original(
  path, setting, everywhere
):
  normalize = normalization_ops.Normalizer(setting == "lower")
  cases = words_by_code_point(path, setting, everywhere)
  codes, expected = zip(*cases, strict=True)
  pieces = [[ord("a"), code, ord("b")] for code in codes]
  words = normalize(tf.RaggedTensor.from_tensor(tf.constant(pieces)))
  words = tf.strings.unicode_encode(words, "UTF-8").to_list()
  for code, result, wanted in zip(codes, words, expected, strict=True):
    assert [word.decode() for word in result] == wanted, hex(code)


def words_by_code_point(path, setting, everywhere):
  """Yields each code point X, and the original's words for the text aXb."""
  with gzip.open(path, "rt", encoding="utf-8") as file:
    golden = json.load(file)
  # Later Unicode versions than the golden file's differ at these code points.
  unstable = set(code_points(golden["differs_with_unicode_14"]))
  if int(unicodedata.unidata_version.split(".")[0]) >= 15:
    ranges = [bounds.split("-") for bounds in UNICODE_15]
    unstable |= set(code_points(ranges))
  special = golden[setting]["special"]
  words = {
    "removed": lambda char: ["ab"],
    "space": lambda char: ["a", "b"],
    "split": lambda char: ["a", char, "b"],
    "kept": lambda char: [f"a{char}b"],
    "special": lambda char: special[f"{ord(char):04X}"],
  }
  for kind, ranges in golden[setting]["ranges"].items():
    for code in code_points(ranges, everywhere):
      if code not in unstable:
        yield code, words[kind](chr(code))


def code_points(ranges, everywhere=True):
  for bounds in ranges:
    first, last = (int(bound, 16) for bound in bounds)
    for code in range(first, last + 1):
      is_near_end = min(code - first, last - code) < 256
      if everywhere or code < UNASSIGNED or is_near_end:
        yield code
