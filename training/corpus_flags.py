"""The flags of programs that read a corpus; needs no TensorFlow."""

import shlex

from absl import flags


def define_text() -> None:
  """How documents lie in --input_file."""
  flags.DEFINE_enum(
    "input_format",
    "lines",
    ["lines", "paragraphs", "documents"],
    "lines: a sentence a line, a blank line between documents. paragraphs: "
    "prose, a blank line between documents. documents: prose, each file (with "
    "--text_field each line) a document.",
  )
  flags.DEFINE_string(
    "text_field",
    None,
    "Of JSON lines: the field with the text. Without it files are plain text.",
  )


def define_runner() -> None:
  """Whether Apache Beam does it, and how."""
  flags.DEFINE_string(
    "runner",
    None,
    "Do it by Apache Beam: DirectRunner, FlinkRunner, SparkRunner, "
    "DataflowRunner, ... (`pip install -r requirements-beam.txt`)",
  )
  flags.DEFINE_string(
    "pipeline_options", "", "Beam's own flags, in one string, for --runner."
  )


def pipeline_options(FLAGS: flags.FlagValues) -> list[str]:
  """Beam's command line."""
  return [f"--runner={FLAGS.runner}", *shlex.split(FLAGS.pipeline_options)]
