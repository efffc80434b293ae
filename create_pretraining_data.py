r"""Makes masked-LM and next-sentence records for pre-training from plain text.

The input has one sentence a line and a blank line between documents:

  python create_pretraining_data.py --input_file=./sample_text.txt \
    --output_file=/tmp/tf_examples.tfrecord --vocab_file=$BERT_DIR/vocab.txt

Or prose, or JSON lines: see --input_format and --text_field. Files whose names
end in .gz or .zst are decompressed.
"""

from absl import flags, logging

from assembly import record_settings
from data import files, vocab
from data.pretraining import parts, whole
from data.pretraining.text_format import TextFormat
from training import corpus_flags, program

FLAGS = flags.FLAGS

corpus_flags.define_text()
corpus_flags.define_runner()
record_settings.define_flags()
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
flags.DEFINE_integer(
  "num_workers",
  0,
  "0: one process, records exactly as the original makes them, all in memory. "
  "1 or more: so many processes, any size of text; the records are others, "
  "the same for any number.",
  0,
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
  files.require_apart(inputs, *outputs)
  if FLAGS.runner:
    check_runner(outputs)
  elif not FLAGS.overwrite:
    files.refuse_to_overwrite(*outputs)
  job = parts.Job(
    FLAGS.vocab_file,
    FLAGS.do_lower_case,
    record_settings.from_flags(FLAGS),
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
    total = whole.write(job, inputs, outputs)
  logging.info("Wrote %d instances to:\n  %s", total, "\n  ".join(outputs))


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


if __name__ == "__main__":
  program.run(main)
