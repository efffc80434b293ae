"""Splits prose into sentences, as input of create_pretraining_data.py.

Every file becomes a document: one sentence per line, a blank line at the end.

  python split_sentences.py --input_file='books/*.txt' --output_file=text.txt
"""

import cli.interrupts  # noqa: F401, first: Ctrl-C while others are imported

from absl import flags, logging

from cli import checks, program
from cli.arguments import Arguments
from data.pretraining import documents
from storage import files
from storage.progress import Progress

flags.DEFINE_string(
  "input_file", None, "Text files or globs, comma-separated.", required=True
)
flags.DEFINE_string("output_file", None, "Text file to write.", required=True)
flags.DEFINE_bool("overwrite", False, "Replace an existing output_file.")


def check_flags(args: Arguments) -> None:
  """Checks flags and paths before any work is done."""
  files.check_disjoint(files.expand(args.input_file), args.output_file)
  checks.output(args, "output_file")
  if not args.overwrite:
    files.refuse_to_overwrite(args.output_file)


def main(args: Arguments) -> None:
  paths = files.expand(args.input_file)
  progress = Progress("split", sum(files.size(p) for p in paths), "bytes")
  with files.open_for_writing(args.output_file) as output:
    for path in paths:
      count = 0
      for paragraph in documents.paragraphs(files.lines(path)):
        sentences = documents.split_sentences(paragraph)
        output.write("".join(f"{line}\n" for line in sentences).encode())
        count += len(sentences)
      output.write(b"\n")
      progress.add(files.size(path), documents=1, sentences=count)
    progress.say()
    if not progress.counts["sentences"]:
      raise ValueError(f"{args.input_file} holds no text")
  logging.info("wrote %s", args.output_file)


if __name__ == "__main__":
  program.run(main, check_flags)
