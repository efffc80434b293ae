"""The flags of programs that read a corpus; needs no TensorFlow."""

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
