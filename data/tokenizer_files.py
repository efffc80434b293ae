"""Opens the tokenizer of a vocabulary file, whatever its kind."""

import os
from collections.abc import Callable

from data.tokenization import FullTokenizer
from data.tokenizer import Tokenizer
from storage import files

# Tokenizers by the ending of their vocabulary's name, which is `vocab` in the
# folder of a model. Files of all other endings have word pieces, too.
KINDS: dict[str, Callable[[str, bool], Tokenizer]] = {".txt": FullTokenizer}


def open_tokenizer(
  vocab_file: str | os.PathLike, do_lower_case: bool = True
) -> Tokenizer:
  """Reads a vocabulary; UserError or OSError if that fails."""
  path = os.fspath(vocab_file)
  kind = KINDS.get(os.path.splitext(path)[1], FullTokenizer)
  return kind(path, do_lower_case)


def names() -> list[str]:
  """Names of vocabularies in the folder of a model."""
  return [f"vocab{ending}" for ending in KINDS]


def open_saved(folder: str, do_lower_case: bool) -> Tokenizer:
  """Reads the vocabulary that Tokenizer.save wrote to a folder."""
  paths = [os.path.join(folder, name) for name in names()]
  path = next(filter(files.exists, paths), paths[0])
  return open_tokenizer(path, do_lower_case)
