r"""Makes masked-LM and next-sentence records for pre-training from plain text.

The input has one sentence per line and a blank line between documents:

  python create_pretraining_data.py --input_file=./sample_text.txt \
    --output_file=/tmp/tf_examples.tfrecord --vocab_file=$BERT_DIR/vocab.txt

It may be prose or JSON lines (--input_format, --text_field), also compressed.
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

import os

from absl import logging

from cli import file_checks, program
from data import vocab_checks
from data.pretraining import builders, documents, shards
from storage import UserError, files
from tasks.pretraining.corpus_settings import RecordSettings


def check_flags(args: RecordSettings) -> None:
  inputs = files.expand(args.input_file)
  if not args.preview:
    check_outputs(args, inputs)
  elif args.runner or args.num_workers:
    raise UserError(
      "--preview reads the text in one process: drop --num_workers and --runner"
    )
  file_checks.check_file(args, "vocab_file")
  args.instance_config()


def check_outputs(args: RecordSettings, inputs: list[str]) -> None:
  outputs = output_files(args)
  if "" in outputs or len(set(map(os.path.realpath, outputs))) < len(outputs):
    raise UserError(
      f"--output_file={args.output_file} repeats a name or has an empty one"
    )
  file_checks.check_disjoint(inputs, *outputs)
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
    file_checks.check_is_new(*outputs)
  for output in outputs:
    file_checks.check_writable_file(output)


def main(args: RecordSettings) -> None:
  inputs = files.expand(args.input_file)
  tokenizer = args.tokenizer
  config = builders.BuildConfig(
    tokenizer,
    args.instance_config(),
    args.random_seed,
    builders.TextFormat(args.input_format, args.text_field),
    args.deduplicate,
  )
  tokenizer.check(*config.instance_config.tokens)
  vocab_checks.warn_of_case(tokenizer)
  ids = tokenizer.vocab
  last_line = max(ids, key=ids.__getitem__)
  if args.masking == "static" and not last_line:
    text = "%s ends with a blank line, which is drawn as a random word, as in "
    text += "the original, with an id that its models lack: remove the line"
    logging.warning(text, args.vocab_file)
  sample = [*vocab_checks.sample(inputs, config.text_format.lines)]
  vocab_checks.warn_of_texts(sample, tokenizer, args.input_file)
  words, length = tokenizer.words, args.max_seq_length
  is_prose = config.text_format.is_prose
  for doubt in documents.doubts(sample, is_prose, words, length):
    logging.warning("%s: %s", args.input_file, doubt)
  logging.info("Reading from input files:\n  %s", "\n  ".join(inputs))
  if args.preview:
    from data.pretraining.preview import preview

    program.end_with_reader()
    masks, objective = args.masks(), args.preview_objective
    for line in preview(config, inputs, args.preview, masks, objective):
      print(line)
    return
  outputs = output_files(args)
  if args.runner:
    from data.pretraining import beam  # optional dependency

    [output] = outputs
    existing = beam.outputs(output)  # which are removed
    file_checks.check_disjoint(inputs, *existing)
    if not args.overwrite:
      file_checks.check_is_new(*existing)
    options = args.runner_options()
    total = beam.write(config, inputs, output, options)
  elif args.num_workers:
    total = shards.write_shards(config, inputs, outputs, args.num_workers)
  else:
    total = builders.write_in_memory(config, inputs, outputs)
  logging.info("Wrote %d instances to:\n  %s", total, "\n  ".join(outputs))


def output_files(args: RecordSettings) -> list[str]:
  """File names in --output_file; ValueError without that flag."""
  if not args.output_file:
    raise UserError("nothing to write: give --output_file, or --preview=3")
  return [name.strip() for name in args.output_file.split(",")]


if __name__ == "__main__":
  program.run(RecordSettings, check_flags, main, writes_files=True)
