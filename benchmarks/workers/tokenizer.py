"""Worker: a tokenizer of BERT on the lines of text files."""

import json
import os
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

from benchmarks.worker import Answer

BATCH = 1024  # lines


def prepare(
  tokenizer: str, paths: list[str], vocab_file: str, megabytes: float
) -> Answer:
  """Answers with `seconds`, `tokens`, and `checksums` of the ids of lines.

  The tokenizer is a label of benchmarks/tokenization.py.
  """
  batches = read_batches(paths, megabytes)
  if tokenizer.startswith("Hugging Face"):
    run = hugging_face(vocab_file)
  elif tokenizer in ("FullTokenizer", "CachedTokenizer"):
    run = python(tokenizer, vocab_file)
  else:
    run, batches = in_graph(tokenizer, vocab_file, batches)
  run(batches)  # one-time costs

  def answer():
    start = time.perf_counter()
    result = run(batches)
    seconds = time.perf_counter() - start
    batches_of_ids = (b if isinstance(b, list) else b.to_list() for b in result)
    lines = [list(map(int, ids)) for batch in batches_of_ids for ids in batch]
    return {
      "seconds": seconds,
      "tokens": sum(map(len, lines)),
      "checksums": [zlib.crc32(json.dumps(ids).encode()) for ids in lines],
    }

  return answer


def read_batches(paths: list[str], megabytes: float) -> list[list[str]]:
  lines, size = [], 0
  for path in paths:
    with open(path, encoding="utf-8", newline="\n") as file:
      for line in file:
        if line.strip():
          lines.append(line.rstrip("\n"))
          size += len(line.encode())
        if size > megabytes * 1e6:
          break
  return [lines[i : i + BATCH] for i in range(0, len(lines), BATCH)]


def python(name: str, vocab_file: str):
  """The tokenizers of this repository in Python; the cache begins empty."""
  from data import tokenization  # noqa: PLC0415

  full = tokenization.FullTokenizer(vocab_file)

  def ids(line):
    return full.convert_tokens_to_ids(full.tokenize(line))

  def run(batches):
    cached = tokenization.CachedTokenizer(full).ids
    tokenize = cached if name == "CachedTokenizer" else ids
    return [[tokenize(line) for line in batch] for batch in batches]

  return run


def in_graph(name: str, vocab_file: str, batches):
  import tensorflow as tf  # noqa: PLC0415
  import tensorflow_text as tf_text  # noqa: PLC0415

  from data import tokenization  # noqa: PLC0415
  from data.tokenization_ops import GraphTokenizer  # noqa: PLC0415

  full = tokenization.FullTokenizer(vocab_file)
  if name == "GraphTokenizer":
    tokenizer = GraphTokenizer(vocab_file, do_lower_case=True)
  elif name == "tensorflow_text.BertTokenizer":
    tokenizer = tf_text.BertTokenizer(vocab_file, lower_case=True)
  else:
    tokenizer = tf_text.FastBertTokenizer(
      list(full.vocab), lower_case_nfd_strip_accents=True
    )

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
  def tokenize(texts):
    ids = tokenizer.tokenize(texts)
    return ids.merge_dims(1, 2) if ids.ragged_rank > 1 else ids

  def run(tensors):
    with ThreadPoolExecutor(int(os.environ["OMP_NUM_THREADS"])) as pool:
      return list(pool.map(tokenize, tensors))

  return run, [tf.constant(batch) for batch in batches]


def hugging_face(vocab_file: str):
  from tokenizers import BertWordPieceTokenizer  # noqa: PLC0415

  tokenizer = BertWordPieceTokenizer(vocab_file, lowercase=True)

  def run(batches):
    encode = tokenizer.encode_batch
    encoded = (encode(batch, add_special_tokens=False) for batch in batches)
    return [[line.ids for line in batch] for batch in encoded]

  return run
