"""Tokens a second: our tokenizers beside others, on your text.

  python -m benchmarks.tokenization --text='English:novels/*.txt' \
    --vocab_file=vocab.txt

Everyone tokenizes the same lines, in turns, so that a busy machine is busy for
all, and on all cores, but for what is Python. A speed is the number of tokens
of the specification over the time taken, whatever a tokenizer's own tokens are;
"same lines" says for how many lines they are the specification's; a ratio is
their time over ours. Hugging Face's is measured if it is installed.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import tensorflow as tf
import tensorflow_text as tf_text
from absl import flags

from benchmarks.published import Table
from benchmarks.spread import ratios
from data import files, tokenization, vocab
from data.tokenization_ops import GraphTokenizer
from training import program

FLAGS = flags.FLAGS

flags.DEFINE_multi_string(
  "text", None, "A name, a colon, and files or globs.", required=True
)
flags.DEFINE_string("vocab_file", None, "The vocabulary.", required=True)
flags.DEFINE_bool("do_lower_case", True, "Lower-case the text.")
flags.DEFINE_float("megabytes", 4.0, "How much of the text to take.")
flags.DEFINE_integer("batch_size", 1024, "Lines given at a time.", 1)
flags.DEFINE_integer("rounds", 5, "How many turns everyone gets.", 1)

SPECIFICATION = "FullTokenizer, the original's steps in Python"
OURS = "GraphTokenizer"

Batches = list[list[str]]
Run = Callable[[], list]


def read_batches(paths: list[str]) -> Batches:
  """The first lines of text files that are not blank."""
  lines, size = [], 0
  for path in paths:
    for line in files.lines(path):
      if line.strip():
        lines.append(line)
        size += len(line.encode())
      if size > FLAGS.megabytes * 1e6:
        break
  starts = range(0, len(lines), FLAGS.batch_size)
  return [lines[start : start + FLAGS.batch_size] for start in starts]


def contestants(batches: Batches) -> Iterator[tuple[str, Run]]:
  """Names, and functions that tokenize all batches."""
  lower = FLAGS.do_lower_case
  full = tokenization.FullTokenizer(FLAGS.vocab_file, lower)
  tensors = [tf.constant(batch) for batch in batches]

  def specification():
    return [
      [full.convert_tokens_to_ids(full.tokenize(line)) for line in batch]
      for batch in batches
    ]

  def cached():
    tokenizer = tokenization.CachedTokenizer(full)
    return [[tokenizer.ids(line) for line in batch] for batch in batches]

  graph = GraphTokenizer(full.vocab, lower)
  yield SPECIFICATION, specification
  yield "CachedTokenizer, empty at first", cached
  yield OURS, in_graph(graph.tokenize, tensors)

  bert = tf_text.BertTokenizer(FLAGS.vocab_file, lower_case=lower)
  fast = tf_text.FastBertTokenizer(
    list(full.vocab), lower_case_nfd_strip_accents=lower
  )
  for name, other in (("BertTokenizer", bert), ("FastBertTokenizer", fast)):
    yield f"tensorflow_text.{name}", in_graph(words_merged(other), tensors)
  yield from hugging_face(lower, batches)


def words_merged(tokenizer):
  """Its `tokenize` without the dimension of words."""

  def tokenize(texts):
    ids = tokenizer.tokenize(texts)
    return ids.merge_dims(1, 2) if ids.ragged_rank > 1 else ids

  return tokenize


def in_graph(tokenize, tensors) -> Run:
  """As a tf.function, batches on all cores."""
  signature = [tf.TensorSpec([None], tf.string)]
  function = tf.function(tokenize, input_signature=signature)

  def run():
    with ThreadPoolExecutor(os.cpu_count()) as pool:
      return list(pool.map(function, tensors))

  return run


def hugging_face(lower, batches) -> Iterator[tuple[str, Run]]:
  """Its tokenizer of BERT, on all cores, if installed."""
  try:
    from tokenizers import BertWordPieceTokenizer  # noqa: PLC0415
  except ImportError:
    return
  tokenizer = BertWordPieceTokenizer(FLAGS.vocab_file, lowercase=lower)

  def run():
    return [
      [
        encoding.ids
        for encoding in tokenizer.encode_batch(batch, add_special_tokens=False)
      ]
      for batch in batches
    ]

  yield "Hugging Face tokenizers", run


def lists(found) -> list[list[int]]:
  """Ids of every line, of whatever a contestant returns."""
  batches = (b if isinstance(b, list) else b.to_list() for b in found)
  return [ids for batch in batches for ids in batch]


def measure(text: tuple[str, list[str]]) -> dict:
  """Tokens a second of everyone, and on how many lines they are the same.

  Args:
    text: a name, and files.
  """
  name, paths = text
  batches = read_batches(paths)
  everyone = dict(contestants(batches))
  found = {who: lists(run()) for who, run in everyone.items()}
  expected = found[SPECIFICATION]
  seconds = {who: [] for who in everyone}
  for _ in range(FLAGS.rounds):
    for who, run in everyone.items():
      start = time.perf_counter()
      run()
      seconds[who].append(time.perf_counter() - start)
  return {
    "case": name,
    "lines": len(expected),
    "tokens": sum(map(len, expected)),
    "seconds": seconds,
    "same_lines": {
      who: sum(map(list.__eq__, own, expected)) for who, own in found.items()
    },
  }


def rows(result: dict):
  """A row for everyone."""
  ours = result["seconds"][OURS]
  for who, own in result["seconds"].items():
    yield (
      result["case"],
      who,
      f"{result['tokens'] / statistics.median(own) / 1e6:.2f}",
      *ratios(own, ours),
      f"{result['same_lines'][who] / result['lines']:.2%}",
    )


def main(_):
  vocab.require(vocab.load(FLAGS.vocab_file), name=FLAGS.vocab_file)
  named = [text.partition(":") for text in FLAGS.text]
  for name, _, pattern in named:
    if not name or not pattern:
      raise ValueError(f"--text={name}{pattern}: expected NAME:FILES")
  texts = [(name, files.expand(pattern)) for name, _, pattern in named]
  TABLE.report(map(measure, texts))


TABLE = Table(
  "tokenization",
  ("text", "who", "million tokens/s", "ratio", "range", "same lines"),
  rows,
)

if __name__ == "__main__":
  program.run(main)
