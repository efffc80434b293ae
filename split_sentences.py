r"""Splits prose into sentences, the input of create_pretraining_data.py.

Each file becomes one document: one sentence per line, a blank line at the end.

  python split_sentences.py --input_file='books/*.txt' --output_file=text.txt

--source=books or wikipedia keeps passages only, no lists or headers
(section 3.1 of the paper). Each article of WikiExtractor becomes a document:

  python split_sentences.py --source=wikipedia --input_file='text/*/wiki_*' \
    --output_file=wikipedia.txt
"""

import cli.start_up  # noqa: F401, first: handles Ctrl-C during imports

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from absl import logging

from cli import program
from cli.settings import Settings, check_output_file, common, flag, required
from data.pretraining import documents, passages
from data.pretraining.sentences import UNSPLIT, is_unsplit, split_sentences
from storage import Progress, UserError, files, textfiles


@dataclass(frozen=True, kw_only=True)
class SplitSettings(Settings):
  """Flags of split_sentences.py."""

  input_file: str = required("Text files or globs, comma-separated.")
  output_file: str = required("Text file to write.")
  source: str = flag(
    "prose",
    "prose: all text. books: passages, between blank lines. wikipedia: "
    "passages of articles in WikiExtractor's output, <doc ...> blocks or "
    "--json.",
    choices=("prose", "books", "wikipedia"),
  )
  overwrite: bool = common(False, "Replace an existing output_file.")


def check_flags(settings: SplitSettings) -> None:
  inputs = files.expand(settings.input_file)
  check_output_file(settings.output_file, settings.overwrite, *inputs)


def main(settings: SplitSettings) -> None:
  paths = files.expand(settings.input_file)
  progress = Progress("split", sum(map(files.size, paths)) / 1e6, "MB")
  unsplit = 0
  with files.open_for_writing(settings.output_file) as output:
    for path in paths:
      texts: Iterable[Iterable[str]]  # the paragraphs of each document
      if settings.source == "wikipedia":
        texts = passages.read_wikipedia(path, progress)
      elif settings.source == "books":
        texts = [passages.read_book(path, progress)]
      else:
        lines = textfiles.lines(path)  # read once: the file may be a pipe
        first = next(lines, "")
        if doubt := documents.doubt_format(first):
          logging.warning("%s: %s", path, doubt)
        texts = [documents.paragraphs(chain([first], lines))]
      for paragraphs in texts:
        count = 0
        for paragraph in paragraphs:
          sentences = split_sentences(paragraph)
          output.write("".join(f"{line}\n" for line in sentences).encode())
          count += len(sentences)
          unsplit += sum(map(is_unsplit, sentences))
        if count:
          output.write(b"\n")
          progress.add(0, documents=1, sentences=count)
      progress.add(files.size(path) / 1e6)
    progress.say()
    if not progress.counts["sentences"]:
      raise UserError(f"{settings.input_file} holds no text")
  if unsplit:
    logging.warning(f"{settings.input_file}: {unsplit:,} sentences {UNSPLIT}")
  logging.info("wrote %s", settings.output_file)


if __name__ == "__main__":
  program.run(SplitSettings, check_flags, main, writes_files=True)
