"""A tokenizer unlike BERT's: each character is a token.

Run as a program, this file registers the tokenizer, and then runs the program
that the first argument names.
"""

import os
import runpy
import sys
from pathlib import Path

from data import tokenization
from data.vocab import SpecialTokens, Tokenizer
from storage import files

ENDING = ".chars"  # of the vocabulary file
_BEGIN = "▁"  # marks the first character of each word


class Characters(Tokenizer):
  """Tokenizes into characters; the vocabulary file is one line of letters."""

  special = SpecialTokens("<pad>", "<unk>", "<s>", "</s>", "<mask>")
  pad = 1

  def __init__(self, vocab_file, do_lower_case=True):
    self.vocab_file, self.do_lower_case = vocab_file, do_lower_case
    self._letters = files.read_text(vocab_file)
    pad, unknown, cls, sep, mask = self.special
    begins = [_BEGIN + letter for letter in self._letters]
    tokens = [cls, pad, sep, unknown, mask, *begins, *self._letters]
    self.vocab = {token: index for index, token in enumerate(tokens)}

  def words(self, text):
    return (text.lower() if self.do_lower_case else text).split()

  def tokenize(self, text):
    tokens = [
      char if number else _BEGIN + char
      for word in self.words(text)
      for number, char in enumerate(word)
    ]
    return [t if t in self.vocab else self.special.unknown for t in tokens]

  def join(self, tokens):
    return "".join(tokens).replace(_BEGIN, " ").strip()

  def continues(self, token):
    return not token.startswith(_BEGIN) and token not in self.special

  def save(self, folder):
    files.write_text(os.path.join(folder, f"vocab{ENDING}"), self._letters)


if __name__ == "__main__":
  tokenization.KINDS[ENDING] = Characters
  sys.argv = sys.argv[1:]
  path = Path(__file__).parents[1] / f"{sys.argv[0]}.py"
  sys.argv[0] = str(path)
  runpy.run_path(str(path), run_name="__main__")
