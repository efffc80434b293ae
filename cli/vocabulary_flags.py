"""Flags of build_vocab.py: word counts, and vocabularies to extend."""

import os
from collections import Counter

from absl import flags

from cli import encoder, program
from cli import flags as shared_flags
from cli.arguments import Arguments
from data import vocab, vocab_checks
from data.pretraining import builders, vocab_learning
from data.pretraining.builders import TextFormat
from storage import UserError, files
from storage.progress import Progress
from training import run_record


def define_extension_flags() -> None:
  """Defines the flags of --extend."""
  flags.DEFINE_string(
    "extend",
    None,
    "Vocabulary of a model that gets the text's words as tokens. The folder of "
    "--output_file, new or empty, also gets its configuration and checkpoint.",
  )
  flags.DEFINE_string("bert_config_file", None, "Of the model to extend.")
  flags.DEFINE_string(
    "init_checkpoint", None, "Of the model to extend, or a folder with it."
  )
  flags.DEFINE_integer(
    "new_words",
    0,
    "Number of words that --extend adds; 0 for that of the [unused] tokens.",
    0,
  )
  flags.DEFINE_bool(
    "append_words",
    False,
    "Append tokens and embeddings for words beyond the [unused] tokens.",
  )


def count_words(args: Arguments) -> Counter:
  """Counts the words of --input_file, here or by Beam; ValueError for none."""
  patterns = [args.input_file]
  if args.sampling_exponent != 1:
    patterns = [name for name in args.input_file.split(",") if name.strip()]
  sources = {
    pattern: _count_source(args, files.expand(pattern)) for pattern in patterns
  }
  return vocab_learning.smooth(sources, args.sampling_exponent)


def _count_source(args, paths):
  counter = vocab_learning.WordCounter(args.do_lower_case, args.max_words)
  text = TextFormat(args.input_format, args.text_field)
  sample = vocab_checks.sample(paths, text.lines)
  vocab_checks.warn_of_scripts(sample, args.do_lower_case, args.input_file)
  if args.runner:
    from data.pretraining import beam  # noqa: PLC0415, optional dependency

    options = shared_flags.pipeline_options(args)
    beam.count_words(paths, text, counter, args.output_file, options)
  else:
    size = sum(map(builders.text_size, paths))
    progress = Progress("read", size / 1e6, "MB")
    for path in paths:
      for line in text.lines(path):
        counter.add(line)
        progress.add((len(line.encode()) + 1) / 1e6)
  counts = counter.counts()
  if not counts:
    raise UserError(f"no words in {', '.join(paths)}: give other files")
  return counts


def check_extension(args: Arguments) -> None:
  """Checks flags and files of --extend: OSError or ValueError."""
  learning = {
    "preset",
    "vocab_size",
    "special_tokens",
    "unused_tokens",
    "max_alphabet",
  }
  for name in learning & args.set_flags:
    raise UserError(f"--{name} is not for --extend: leave it out")
  program.check_files(args, "extend", "bert_config_file")
  if not args.init_checkpoint:
    raise UserError("--extend needs --init_checkpoint")
  folder, name = os.path.split(args.output_file)
  if name != "vocab.txt" or not folder:
    raise UserError(
      f"--output_file={args.output_file}: with --extend name FOLDER/vocab.txt, "
      "as a checkpoint is written beside it"
    )
  files.check_is_free(folder, "output_file")
  attention = run_record.flag_of(args.init_checkpoint, "attention")
  model = args.replace(vocab_file=args.extend, attention=attention)
  encoder.check(model, encoder.config(model))
  tokens = vocab.read_tokens(args.extend)
  vocab.check_tokens(dict.fromkeys(tokens, 0), name=args.extend)
  unused, needed = len(vocab.unused_ids(tokens)), max(args.new_words, 1)
  if needed > unused and not args.append_words:
    raise UserError(
      f"{args.extend} has {unused} [unused] tokens, fewer than "
      f"--new_words={needed}: --append_words appends the others"
    )
  if not args.new_words and not unused:
    raise UserError("--append_words needs --new_words, their number")
