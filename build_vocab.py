r"""Learns a WordPiece vocabulary, vocab.txt, from text.

Words are those of FullTokenizer: every word of the text can be split into
pieces, except words with characters beyond --max_alphabet.

  python build_vocab.py --input_file='corpus/*.txt' --output_file=vocab.txt

--preset=tiny also writes bert_config.json, of a model to train on this text.

--extend gives the words of another domain to a trained model instead:

  python build_vocab.py --input_file='medical/*.txt' --extend=$BERT/vocab.txt \
    --bert_config_file=$BERT/bert_config.json \
    --init_checkpoint=$BERT/bert_model.ckpt --output_file=medical_bert/vocab.txt
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

import os
from collections import Counter

from absl import flags, logging

from cli import flags as shared_flags
from cli import pretraining_flags, program, vocabulary_flags
from cli.arguments import Arguments
from data import vocab
from data.pretraining import vocab_learning
from modeling.config import PRESETS, BertConfig
from storage import files

shared_flags.define_corpus()
vocabulary_flags.define_extension_flags()
flags.DEFINE_string(
  *("input_file", None, "UTF-8 text files or globs, comma-separated."),
  required=True,
)
flags.DEFINE_string(
  "output_file", None, "Vocabulary file to write.", required=True
)
flags.DEFINE_integer("vocab_size", 30522, "Number of tokens.", 1, 1_000_000)
flags.DEFINE_bool(
  "do_lower_case", True, "Lower-case and strip accents; False for cased models."
)
flags.DEFINE_list(
  "special_tokens",
  list(vocab.SPECIAL_TOKENS),
  "First tokens of the vocabulary; [PAD] has to be the first.",
)
flags.DEFINE_integer(
  "unused_tokens", 0, "Number of [unused0], [unused1], ... tokens.", 0
)
flags.DEFINE_integer(
  "min_count", 2, "Make no token of what occurs less often.", 1
)
flags.DEFINE_integer(
  "max_alphabet",
  1000,
  "Maximum number of characters; words with rarer ones become [UNK]. Chinese "
  "and Japanese need about 8000.",
  1,
)
flags.DEFINE_integer(
  "max_words",
  5_000_000,
  "Maximum number of distinct words in memory; the rarest are dropped.",
  1,
)
pretraining_flags.define_sampling_exponent("words")
flags.DEFINE_enum(
  "preset",
  None,
  [*PRESETS],
  "Also write bert_config.json into the folder of --output_file: a model of "
  "this size, with initial values for short training from scratch "
  "(docs/pretraining.md).",
)
flags.DEFINE_bool("overwrite", False, "Replace --output_file if it exists.")


def config_path(args: Arguments) -> str:
  """Path of the configuration that --preset writes."""
  return os.path.join(os.path.dirname(args.output_file), "bert_config.json")


def check_flags(args: Arguments) -> None:
  """Checks flags and paths before any work is done."""
  program.check_output_file(args, *files.expand(args.input_file))
  if args.extend:
    return vocabulary_flags.check_extension(args)
  if args.preset and not args.overwrite:
    program.check_is_new(config_path(args))
  vocab_learning.reserved_tokens(args.special_tokens, args.unused_tokens)


def main(args: Arguments) -> None:
  """Counts words, learns or extends the vocabulary and writes it."""
  counts = vocabulary_flags.count_words(args)
  if args.extend:
    return write_model(args, counts)
  reserved = vocab_learning.reserved_tokens(
    args.special_tokens, args.unused_tokens
  )
  logging.info(
    "%s words, %s of them distinct",
    *(f"{counts.total():,}", f"{len(counts):,}"),
  )
  tokens = vocab_learning.learn(
    counts,
    reserved,
    vocab_learning.alphabet(counts, args.max_alphabet),
    args.vocab_size,
    args.min_count,
  )
  if len(tokens) < args.vocab_size:
    logging.warning(
      "the text yields only %d tokens of --vocab_size=%d: %sgive more text%s",
      *(len(tokens), args.vocab_size),
      "" if args.preset else "set vocab_size in bert_config.json to it, or ",
      " or a smaller --min_count" if args.min_count > 1 else "",
    )
  vocab.save(tokens, args.output_file)
  logging.info("wrote %d tokens to %s", len(tokens), args.output_file)
  if args.preset:
    config = BertConfig.preset(args.preset, len(tokens), from_scratch=True)
    config.to_json(config_path(args))
    logging.info("wrote %s", config_path(args))


def write_model(args: Arguments, counts: Counter) -> None:
  """Writes vocabulary, configuration and checkpoint with new words."""
  tokens, pieces = vocab_learning.extend(
    *(args.extend, counts, args.input_file),
    *(args.new_words, args.min_count, args.do_lower_case),
  )
  # TensorFlow is imported here, after the words were found.
  from conversion import original
  from serving.export import new_folder

  prefix = original.find(args.init_checkpoint)
  bert = original.read(prefix, args.bert_config_file)
  bert.set_words(pieces)
  with new_folder(os.path.dirname(args.output_file)) as folder:
    bert.vocabulary = os.path.join(folder, "vocab.txt")
    vocab.save(tokens, bert.vocabulary)
    original.write(bert, folder)


if __name__ == "__main__":
  program.run(main, check_flags, writes_files=True)
