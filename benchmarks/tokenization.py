"""Tokens a second: our tokenizers beside others, on your text.

  python -m benchmarks.tokenization --input_file=text.txt --vocab_file=vocab.txt

Everyone tokenizes the same lines, in turns, so that a busy machine is busy for
all. A speed is the number of tokens of the specification over the time taken,
whatever a tokenizer's own tokens are; "same lines" says for how many lines
they are the specification's. Hugging Face's is measured if it is installed.
"""

import json
import statistics
import time
from collections.abc import Callable, Iterator

import tensorflow as tf
import tensorflow_text as tf_text
from absl import flags

from data import files, tokenization, vocab
from data.tokenization_ops import GraphTokenizer
from training import program

FLAGS = flags.FLAGS

flags.DEFINE_string("input_file", None, "Text files or globs.", required=True)
flags.DEFINE_string("vocab_file", None, "The vocabulary.", required=True)
flags.DEFINE_bool("do_lower_case", True, "Lower-case the text.")
flags.DEFINE_float("megabytes", 4.0, "How much of the text to take.")
flags.DEFINE_integer("batch_size", 4096, "Lines given at a time.", 1)
flags.DEFINE_integer("rounds", 5, "How many turns everyone gets.", 1)
flags.DEFINE_string("output_json", None, "Where to write the numbers too.")

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
  yield "FullTokenizer", specification
  yield "CachedTokenizer, empty at first", cached
  yield "GraphTokenizer", in_graph(graph.tokenize, tensors)

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
  """As a tf.function, one batch after the other."""
  signature = [tf.TensorSpec([None], tf.string)]
  function = tf.function(tokenize, input_signature=signature)
  return lambda: list(map(function, tensors))


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


def rows(found) -> list[list[int]]:
  """Ids of every line, of whatever a contestant returns."""
  lists = (b if isinstance(b, list) else b.to_list() for b in found)
  return [ids for batch in lists for ids in batch]


def main(_):
  """Measures and prints."""
  vocab.require(vocab.load(FLAGS.vocab_file), name=FLAGS.vocab_file)
  batches = read_batches(files.expand(FLAGS.input_file))
  everyone = dict(contestants(batches))
  found = {name: rows(run()) for name, run in everyone.items()}
  expected = found["FullTokenizer"]
  tokens = sum(map(len, expected))

  seconds = {name: [] for name in everyone}
  for _ in range(FLAGS.rounds):
    for name, run in everyone.items():
      start = time.perf_counter()
      run()
      seconds[name].append(time.perf_counter() - start)

  results = {
    name: {
      "tokens_per_second": tokens / statistics.median(times),
      "seconds": times,
      "same_lines": sum(map(list.__eq__, found[name], expected)),
    }
    for name, times in seconds.items()
  }
  slowest = results["FullTokenizer"]["tokens_per_second"]
  print(f"{len(expected):,} lines, {tokens:,} tokens, {FLAGS.rounds} rounds")
  print(f"{'million tokens/s':>49}{'ratio':>9}{'same lines':>12}")
  for name, result in results.items():
    speed = result["tokens_per_second"]
    same = result["same_lines"] / len(expected)
    print(f"{name:33}{speed / 1e6:16.2f}{speed / slowest:9.1f}{same:12.2%}")
  if FLAGS.output_json:
    report = {"lines": len(expected), "tokens": tokens, "results": results}
    with files.open_for_writing(FLAGS.output_json) as file:
      file.write(json.dumps(report, indent=2).encode())


if __name__ == "__main__":
  program.run(main)
