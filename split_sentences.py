"""Cuts prose into the input of create_pretraining_data.py.

Every file becomes a document: one sentence a line, a blank line at its end.

  python split_sentences.py --input_file='books/*.txt' --output_file=text.txt
"""

from absl import flags, logging

from data import files
from data.pretraining import sentences
from data.progress import Progress
from training import program

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "input_file", None, "Text files or globs, comma-separated.", required=True
)
flags.DEFINE_string("output_file", None, "Text file to write.", required=True)
flags.DEFINE_bool("overwrite", False, "Replace the output if it is there.")


def main(_):
  paths = files.expand(FLAGS.input_file)
  files.require_apart(paths, FLAGS.output_file)
  if not FLAGS.overwrite:
    files.refuse_to_overwrite(FLAGS.output_file)
  progress = Progress("split", sum(files.size(p) for p in paths), "bytes")
  with files.open_for_writing(FLAGS.output_file) as output:
    for path in paths:
      count = 0
      for paragraph in sentences.paragraphs(files.lines(path)):
        found = sentences.split(paragraph)
        output.write("".join(f"{line}\n" for line in found).encode())
        count += len(found)
      output.write(b"\n")
      progress.add(files.size(path), documents=1, sentences=count)
    progress.say()
    if not progress.counts["sentences"]:
      raise ValueError(f"{FLAGS.input_file} holds no text")
  logging.info("wrote %s", FLAGS.output_file)


if __name__ == "__main__":
  program.run(main)
