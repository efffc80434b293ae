"""From tokens back to text: how the paragraph spells an answer.

Tokens are in lower case, without accents and cut at punctuation; the paragraph
is not, and its words may hold more than the tokens. The result is that of
get_final_text in the original's run_squad.py.
"""

from collections.abc import Sequence
from functools import lru_cache

from data.tasks.squad_windows import Window
from data.tokenization import FullTokenizer


class Speller:
  """Finds the text of a span of tokens.

  Arguments:
    tokenizer: what the windows were made with.
  """

  def __init__(self, tokenizer: FullTokenizer):
    self._tokenizer = tokenizer
    # A blank always ends a word, so words can be split one by one.
    self._split = lru_cache(1 << 17)(tokenizer.basic_tokenizer.tokenize)

  def text(
    self, words: Sequence[str], window: Window, start: int, end: int
  ) -> str:
    """The text of a window from one position to another.

    Args:
      words: the paragraph.
      window: a window of it.
      start: position of the first token, one of the paragraph's.
      end: position of the last token.

    Returns:
      Words with blanks between them; of the first and the last what the tokens
      say, or all of them where that cannot be told.
    """
    pieces = self._tokenizer.convert_ids_to_tokens(window.ids[start : end + 1])
    tokens = " ".join(pieces).replace(" ##", "").replace("##", "")
    first = window.words[start - window.first]
    last = window.words[end - window.first]
    return self.respell(" ".join(tokens.split()), words[first : last + 1])

  def respell(self, tokens: str, words: Sequence[str]) -> str:
    """Cuts off what words have beyond some tokens.

    "steve smith" in "Steve Smith's" is "Steve Smith": it is looked for in the
    words as the tokenizer splits them, and its place carried over by counting
    the characters that are not blank.

    Args:
      tokens: what to look for, with single blanks.
      words: where to look.

    Returns:
      The part of the words; all of them if the tokens are not found or the
      counts differ, for want of an accent or a sign of its own, for example.
    """
    whole = " ".join(words)
    split = " ".join(part for word in words for part in self._split(word))
    start = split.find(tokens) if tokens else -1
    places = [i for i, char in enumerate(whole) if char != " "]
    if start < 0 or len(places) != len(split) - split.count(" "):
      return whole
    first = start - split.count(" ", 0, start)
    length = len(tokens) - tokens.count(" ")
    return whole[places[first] : places[first + length - 1] + 1]
