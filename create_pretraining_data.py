r"""Makes masked-LM and next-sentence records for pre-training from plain text.

The input has one sentence a line and a blank line between documents:

  python create_pretraining_data.py --input_file=./sample_text.txt \
    --output_file=/tmp/tf_examples.tfrecord --vocab_file=$BERT_DIR/vocab.txt

Or prose, or JSON lines: see --input_format and --text_field. Files whose names
end in .gz or .zst are decompressed.
"""

from contextlib import ExitStack
from itertools import chain
from random import Random

from absl import flags, logging

from data import files, tfrecord, vocab
from data.pretraining import duplicates, instances, parts
from data.pretraining.mix import USUAL, Mix
from data.pretraining.text_format import TextFormat
from data.progress import Progress
from data.tokenization import CachedTokenizer, FullTokenizer
from training import corpus_flags, program

FLAGS = flags.FLAGS

corpus_flags.define_text()
corpus_flags.define_runner()
flags.DEFINE_string(
  "input_file", None, "Text files or globs, comma-separated.", required=True
)
flags.DEFINE_string(
  "output_file", None, "TFRecord files, comma-separated.", required=True
)
flags.DEFINE_string(
  "vocab_file",
  None,
  "Vocabulary of the model, one token a line.",
  required=True,
)
flags.DEFINE_bool(
  "do_lower_case", True, "Lower-case the text; False for cased models."
)
flags.DEFINE_bool(
  "do_whole_word_mask", False, "Mask all pieces of a word, or none."
)
flags.DEFINE_integer("max_seq_length", 128, "Tokens of a record.")
flags.DEFINE_integer(
  "max_predictions_per_seq", 20, "Masked tokens of a record, at most."
)
flags.DEFINE_integer("random_seed", 12345, "Seed of all random choices.")
flags.DEFINE_integer(
  "dupe_factor",
  10,
  "How many times to go through the text, with other masks each time. With "
  "--masking=dynamic the default is 1.",
)
flags.DEFINE_float("masked_lm_prob", 0.15, "Share of the tokens to mask.")
flags.DEFINE_float(
  "mask_share", Mix.mask_share, "Of those, the share that becomes [MASK]."
)
flags.DEFINE_float(
  "random_share",
  Mix.random_share,
  "The share that becomes a random token; the rest stays the same.",
)
flags.DEFINE_float(
  "short_seq_prob", 0.1, "Share of documents cut into shorter records."
)
flags.DEFINE_integer(
  "num_workers",
  0,
  "0: one process, records exactly as the original makes them, all in memory. "
  "1 or more: so many processes, any size of text; the records are others, "
  "the same for any number.",
  0,
)
flags.DEFINE_enum(
  "masking",
  "static",
  ["static", "dynamic"],
  "static: mask now. dynamic: store pairs once, unmasked, for run_pretraining "
  "to mask anew in every epoch.",
)
flags.DEFINE_bool(
  "drop_duplicates",
  False,
  "Leave out documents of which an equal one came before.",
)
flags.DEFINE_bool("overwrite", False, "Replace output files that exist.")


def main(_):
  """Reads flags, checks them before the long work, and does it."""
  inputs = files.expand(FLAGS.input_file)
  outputs = [name.strip() for name in FLAGS.output_file.split(",")]
  if "" in outputs or len(set(outputs)) < len(outputs):
    raise ValueError(
      f"--output_file={FLAGS.output_file} repeats or lacks a name"
    )
  if FLAGS.runner:
    check_runner(outputs)
  elif not FLAGS.overwrite:
    files.refuse_to_overwrite(*outputs)
  job = parts.Job(
    FLAGS.vocab_file,
    FLAGS.do_lower_case,
    settings_from_flags(),
    FLAGS.random_seed,
    TextFormat(FLAGS.input_format, FLAGS.text_field),
    FLAGS.drop_duplicates,
  )
  vocab.require(vocab.load(job.vocab_file), job.settings.tokens, job.vocab_file)
  logging.info("Reading from input files:\n  %s", "\n  ".join(inputs))
  if FLAGS.runner:
    total = write_by_beam(job, inputs, *outputs)
  elif FLAGS.num_workers:
    total = parts.write(job, inputs, outputs, FLAGS.num_workers)
  else:
    total = write(job, inputs, outputs)
  logging.info("Wrote %d instances to:\n  %s", total, "\n  ".join(outputs))


def settings_from_flags() -> instances.Settings:
  """What the records are to be like."""
  masked = FLAGS.masking == "static"
  dupes = FLAGS.dupe_factor
  if not masked and not FLAGS["dupe_factor"].present:
    dupes = 1
  mix = Mix(FLAGS.mask_share, FLAGS.random_share)
  if not masked and mix != USUAL:
    raise ValueError(
      "--mask_share and --random_share are for words masked now: with "
      "--masking=dynamic give them to run_pretraining.py"
    )
  return instances.Settings(
    max_seq_length=FLAGS.max_seq_length,
    max_predictions_per_seq=FLAGS.max_predictions_per_seq,
    masked_lm_prob=FLAGS.masked_lm_prob,
    short_seq_prob=FLAGS.short_seq_prob,
    dupe_factor=dupes,
    whole_word=FLAGS.do_whole_word_mask,
    mix=mix,
    masked=masked,
  )


def check_runner(outputs: list[str]) -> None:
  """Raises ValueError where flags do not go with --runner."""
  if FLAGS.num_workers:
    raise ValueError(
      "--runner brings its own workers: leave --num_workers out, and say in "
      "--pipeline_options how many"
    )
  if len(outputs) > 1:
    raise ValueError(
      f"--output_file={FLAGS.output_file} names several files; --runner makes "
      "NAME-00000-of-00032 and so on of a single NAME"
    )


def write_by_beam(job: parts.Job, inputs: list[str], output: str) -> int:
  """Makes records by Apache Beam; returns their number."""
  from data.pretraining import beam  # noqa: PLC0415, not everybody has it

  if not FLAGS.overwrite:
    files.refuse_to_overwrite(*beam.outputs(output))
  return beam.write(job, inputs, output, corpus_flags.pipeline_options(FLAGS))


def write(job: parts.Job, inputs: list[str], outputs: list[str]) -> int:
  """Makes the original's records, in this process; returns their number."""
  tokenizer = FullTokenizer(job.vocab_file, job.do_lower_case)
  rng = Random(job.seed)
  builder = instances.Builder(tokenizer.vocab, job.settings)

  # A document may go on in the next file, as in the original.
  lines = chain.from_iterable(map(job.text.lines, inputs))
  reading = Progress("read", sum(map(files.size, inputs)) / 1e6, "MB")
  if job.drop_duplicates:
    lines = duplicates.first_only(lines, reading)
  documents = job.read(lines, CachedTokenizer(tokenizer).ids, reading)
  reading.say()
  if not documents:
    raise instances.no_text(inputs)

  dupes = job.settings.dupe_factor
  building = Progress("built from", len(documents) * dupes, "documents")
  samples = instances.Samples(tokenizer.inv_vocab)
  records = builder.records(documents, rng, building, samples)
  building.say()
  instances.log_samples(samples.texts)
  with ExitStack() as stack:
    for i, path in enumerate(outputs):
      file = stack.enter_context(files.open_for_writing(path))
      tfrecord.write(file, records[i :: len(outputs)])
  return len(records)


if __name__ == "__main__":
  program.run(main)
