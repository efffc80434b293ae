"""Learns a WordPiece vocabulary from text: vocab.txt for your own language.

Words are counted as FullTokenizer sees them, so every word of the text can be
pieced together, but for words with characters beyond --max_alphabet.

  python build_vocab.py --input_file='corpus/*.txt' --output_file=vocab.txt
"""

from collections import Counter

from absl import flags, logging

from data import files, vocab
from data.pretraining import vocab_learning
from data.pretraining.text_format import TextFormat
from data.progress import Progress
from training import corpus_flags, program

FLAGS = flags.FLAGS

corpus_flags.define_text()
corpus_flags.define_runner()
flags.DEFINE_string(
  "input_file",
  None,
  "UTF-8 text files; comma-separated, * and ? allowed.",
  required=True,
)
flags.DEFINE_string(
  "output_file", None, "Where the vocabulary goes.", required=True
)
flags.DEFINE_integer("vocab_size", 30522, "Tokens, all in all.", 1)
flags.DEFINE_bool(
  "do_lower_case", True, "Lower-case and strip accents, as in all programs."
)
flags.DEFINE_list(
  "special_tokens",
  list(vocab.SPECIAL_TOKENS),
  "First lines of the vocabulary; [PAD] has to be number 0.",
)
flags.DEFINE_integer(
  "unused_tokens", 0, "How many [unused0], [unused1], ... to keep free.", 0
)
flags.DEFINE_integer("min_count", 2, "Leave out words seen less often.", 1)
flags.DEFINE_integer(
  "max_alphabet",
  1000,
  "Most characters to know; words with rarer ones become [UNK]. Chinese or "
  "Japanese want about 8000.",
  1,
)
flags.DEFINE_integer(
  "max_words",
  5_000_000,
  "Most distinct words to hold in memory; beyond, the rarest are forgotten.",
  1,
)
flags.DEFINE_bool("overwrite", False, "Replace an existing output_file.")


def reserved_tokens(special: list[str], unused: int) -> list[str]:
  """The tokens that are not learned, in the order of their ids."""
  vocab.require(dict.fromkeys(special, 0), name="--special_tokens")
  if special[0] != vocab.PAD:
    raise ValueError(
      f"--special_tokens begins with {special[0]}; put {vocab.PAD} first:"
      " records are padded with id 0"
    )
  return special + [f"[unused{index}]" for index in range(unused)]


def count_words(paths: list[str]) -> Counter:
  """Counts the words of text files, in this process or by Apache Beam."""
  counter = vocab_learning.WordCounter(FLAGS.do_lower_case, FLAGS.max_words)
  text = TextFormat(FLAGS.input_format, FLAGS.text_field)
  if FLAGS.runner:
    from data.pretraining import beam  # noqa: PLC0415, not everybody has it

    options = corpus_flags.pipeline_options(FLAGS)
    beam.count_words(paths, text, counter, FLAGS.output_file, options)
  else:
    progress = Progress("read", sum(map(files.size, paths)) / 1e6, "MB")
    for path in paths:
      for line in text.lines(path):
        counter.add(line)
        progress.add((len(line.encode()) + 1) / 1e6)
  counts = counter.counts()
  if not counts:
    raise ValueError(f"no words in {', '.join(paths)}: nothing to learn from")
  return counts


def main(_):
  """Counts words, learns, writes."""
  paths = files.expand(FLAGS.input_file)
  files.require_apart(paths, FLAGS.output_file)
  if not FLAGS.overwrite:
    files.refuse_to_overwrite(FLAGS.output_file)
  reserved = reserved_tokens(FLAGS.special_tokens, FLAGS.unused_tokens)
  counts = count_words(paths)
  logging.info(
    "%s words, %s of them distinct; learning (of a large text, for minutes)",
    f"{counts.total():,}",
    f"{len(counts):,}",
  )
  tokens = vocab_learning.learn(
    counts,
    reserved,
    vocab_learning.alphabet(counts, FLAGS.max_alphabet),
    FLAGS.vocab_size,
    FLAGS.min_count,
  )
  if len(tokens) < FLAGS.vocab_size:
    logging.warning(
      "the text yields only %d tokens of --vocab_size=%d: use this number in"
      " bert_config.json, or give more text or a smaller --min_count",
      len(tokens),
      FLAGS.vocab_size,
    )
  vocab.save(tokens, FLAGS.output_file)
  logging.info("wrote %d tokens to %s", len(tokens), FLAGS.output_file)


if __name__ == "__main__":
  program.run(main)
