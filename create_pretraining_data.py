r"""Makes masked-LM and next-sentence records for pre-training from plain text.

The input has one sentence per line and a blank line between documents:

  python create_pretraining_data.py --input_file=./sample_text.txt \
    --output_file=/tmp/tf_examples.tfrecord --vocab_file=$BERT_DIR/vocab.txt

--input_format reads prose, --text_field JSON lines. Files may be compressed.
"""

import cli.start_up  # noqa: F401, first: handles Ctrl-C during imports

import os

from absl import logging

from cli import program
from cli.settings import check_is_new, check_output_file
from data import tokenization, vocab_checks
from data.pretraining import documents, instances, shards
from storage import UserError, files
from tasks.pretraining.corpus_settings import RecordSettings


def check_flags(settings: RecordSettings) -> None:
  inputs = files.expand(settings.input_file)
  settings.check_file("vocab_file")
  settings.instance_config()
  if settings.preview:
    return
  pipes = [x for x in inputs if not (files.is_remote(x) or os.path.isfile(x))]
  in_shards = settings.num_workers or settings.runner
  if pipes and settings.deduplicate and in_shards:
    raise UserError(f"--deduplicate reads {pipes[0]} twice: make it a file")
  outputs = output_files(settings)
  flag = f"--output_file={settings.output_file}"
  if "" in outputs or len({*map(os.path.realpath, outputs)}) < len(outputs):
    raise UserError(f"{flag} repeats a name or has an empty one")
  if settings.runner and len(outputs) > 1:
    raise UserError(f"{flag} names several files; --runner takes one NAME")
  if not (settings.runner or settings.overwrite):
    check_is_new(*outputs)
  for output in outputs:
    check_output_file(output, True, *inputs, settings.vocab_file)


def main(settings: RecordSettings) -> None:
  inputs = files.expand(settings.input_file)
  tokenizer = settings.tokenizer
  config = instances.BuildConfig(
    tokenizer,
    settings.instance_config(),
    settings.random_seed,
    documents.TextFormat(settings.input_format, settings.text_field),
    settings.deduplicate,
  )
  tokenizer.check()
  tokenization.warn_of_case(tokenizer)
  sample = vocab_checks.sample(inputs, config.text_format.lines)
  vocab_checks.warn_of_texts(sample, tokenizer, settings.input_file)
  words, length = tokenizer.words, settings.max_seq_length
  is_prose = config.text_format.is_prose
  for doubt in documents.doubts(sample, is_prose, words, length):
    logging.warning("%s: %s", settings.input_file, doubt)
  logging.info("Reading from input files:\n  %s", "\n  ".join(inputs))
  if settings.preview:
    program.end_with_reader()
    options = settings.preview, settings.masks(), settings.preview_objective
    for line in shards.preview(config, inputs, *options):
      print(line)
    return
  outputs = output_files(settings)
  if settings.runner:
    from data.pretraining import beam  # optional dependency

    [output] = outputs
    for existing in beam.outputs(output):  # Beam removes these files
      check_output_file(existing, settings.overwrite, *inputs)
    options = settings.runner_options()
    total = beam.write(config, inputs, output, options)
  elif settings.num_workers:
    total = shards.write_shards(config, inputs, outputs, settings.num_workers)
  else:
    total = instances.write_in_memory(config, inputs, outputs)
  logging.info("Wrote %d instances to:\n  %s", total, "\n  ".join(outputs))


def output_files(settings: RecordSettings) -> list[str]:
  """File names in --output_file; ValueError without the flag."""
  if not settings.output_file:
    raise UserError("nothing to write: give --output_file, or --preview=3")
  return [name.strip() for name in settings.output_file.split(",")]


if __name__ == "__main__":
  program.run(RecordSettings, check_flags, main, writes_files=True)
