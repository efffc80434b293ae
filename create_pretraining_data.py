r"""Makes masked-LM and next-sentence records for pre-training from plain text.

The input has one sentence per line and a blank line between documents:

  python create_pretraining_data.py --input_file=./sample_text.txt \
    --output_file=/tmp/tf_examples.tfrecord --vocab_file=$BERT_DIR/vocab.txt

It may be prose or JSON lines (--input_format, --text_field), also compressed.
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

import os

from absl import flags, logging

from cli import pretraining_flags, program, shared_flags
from cli.arguments import Arguments
from data import vocab, vocab_checks
from data.pretraining import builders, documents, shards
from data.tokenization import FullTokenizer
from storage import UserError, files

shared_flags.define_corpus()
shared_flags.define_vocabulary()
pretraining_flags.define_record_flags()
flags.DEFINE_string(
  "output_file", None, "TFRecord files, comma-separated; none for --preview."
)
flags.DEFINE_integer(
  "num_workers",
  0,
  "0: one process that holds the text in memory; records are the original's. "
  "1 or more: worker processes, for any amount of text; records differ from "
  "the original's and do not depend on the number of workers.",
  0,
)
flags.DEFINE_bool("deduplicate", False, "Drop copies of earlier documents.")
flags.DEFINE_bool("overwrite", False, "Replace existing output files.")


def check_flags(args: Arguments) -> None:
  inputs = files.expand(args.input_file)
  if not args.preview:
    check_outputs(args, inputs)
  elif args.runner or args.num_workers:
    raise UserError(
      "--preview reads the text in one process: drop --num_workers and --runner"
    )
  program.check_file(args, "vocab_file")
  pretraining_flags.instance_config(args)


def check_outputs(args: Arguments, inputs: list[str]) -> None:
  outputs = output_files(args)
  if "" in outputs or len(set(map(os.path.realpath, outputs))) < len(outputs):
    raise UserError(
      f"--output_file={args.output_file} repeats a name or has an empty one"
    )
  program.check_disjoint(inputs, *outputs)
  if args.runner and args.num_workers:
    raise UserError(
      "--runner has its own workers: give their number in --pipeline_options"
    )
  if args.runner and len(outputs) > 1:
    raise UserError(
      f"--output_file={args.output_file} names several files; --runner takes "
      "one NAME and writes NAME-00000-of-00032 and so on"
    )
  if not (args.runner or args.overwrite):
    program.check_is_new(*outputs)
  for output in outputs:
    program.check_writable_file(output)


def main(args: Arguments) -> None:
  inputs = files.expand(args.input_file)
  config = builders.BuildConfig(
    args.vocab_file,
    args.do_lower_case,
    pretraining_flags.instance_config(args),
    args.random_seed,
    builders.TextFormat(args.input_format, args.text_field),
    args.deduplicate,
  )
  tokenizer = FullTokenizer(args.vocab_file, args.do_lower_case)
  ids = tokenizer.vocab
  vocab.check_tokens(ids, config.instance_config.tokens, args.vocab_file)
  vocab_checks.warn_of_case(ids, args.do_lower_case, args.vocab_file)
  if args.masking == "static" and not max(ids, key=ids.__getitem__):
    text = "%s ends with a blank line, which is drawn as a random word, as in "
    text += "the original, with an id that its models lack: remove the line"
    logging.warning(text, args.vocab_file)
  sample = [*vocab_checks.sample(inputs, config.text_format.lines)]
  vocab_checks.warn_of_texts(sample, tokenizer, args.input_file)
  words, length = tokenizer.basic_tokenizer.tokenize, args.max_seq_length
  is_prose = config.text_format.is_prose
  for doubt in documents.doubts(sample, is_prose, words, length):
    logging.warning("%s: %s", args.input_file, doubt)
  logging.info("Reading from input files:\n  %s", "\n  ".join(inputs))
  if args.preview:
    targets = pretraining_flags.preview_targets(args, ids)
    program.end_with_reader()
    for line in builders.preview(config, inputs, args.preview, *targets):
      print(line)
    return
  outputs = output_files(args)
  if args.runner:
    from data.pretraining import beam  # optional dependency

    [output] = outputs
    existing = beam.outputs(output)  # which are removed
    program.check_disjoint(inputs, *existing)
    if not args.overwrite:
      program.check_is_new(*existing)
    options = shared_flags.pipeline_options(args)
    total = beam.write(config, inputs, output, options)
  elif args.num_workers:
    total = shards.write_shards(config, inputs, outputs, args.num_workers)
  else:
    total = builders.write_in_memory(config, inputs, outputs)
  logging.info("Wrote %d instances to:\n  %s", total, "\n  ".join(outputs))


def output_files(args: Arguments) -> list[str]:
  """File names in --output_file; ValueError without that flag."""
  if not args.output_file:
    raise UserError("nothing to write: give --output_file, or --preview=3")
  return [name.strip() for name in args.output_file.split(",")]


if __name__ == "__main__":
  program.run(main, check_flags, writes_files=True)
