"""Schemes of tags: which words of a sentence are an entity of which type.

A tag has a letter, for the place of its word in an entity, and a type: "B-PER"
with a prefix, "PER-B" with a suffix, "B" without a type. Tags without letters
are types alone (IO) or, in a file without "O", of single words, such as parts
of speech.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

OUTSIDE = "O"
# Letters of an entity's first, inner, last and only word; then of the first and
# the only word of an entity directly after another one of its type.
PATTERNS = {
  "BIO": "BIIBBB",
  "IOB1": "IIIIBB",
  "BIOES": "BIESBS",
  "BIOS": "BIISBS",
  "BILOU": "BILUBU",
  "BMES": "BMESBS",
  "BMEWO": "BMEWBW",
  "IOE2": "IIEEIE",
}
_OUTSIDES = (OUTSIDE, "o", "-", "_", "0", "OUT", "NONE")
# Separator of letter and type, "" without types; is the letter a suffix, and is
# it in lower case?
Layout = tuple[str, bool, bool]
USUAL: Layout = ("-", False, False)
Parts = dict[str, tuple[str, str]]  # letter, in upper case, and type, by tag


class Entity(NamedTuple):
  """An entity in a sentence: words `begin` to `end`, exclusive."""

  entity_type: str
  begin: int
  end: int


class Scheme(NamedTuple):
  """Letters by place in an entity, and how tags are written.

  `name` is a key of PATTERNS, "IO", or "" for tags of single words. These two
  have no layout.
  """

  name: str
  layout: Layout | None = USUAL
  parts: Mapping[str, tuple[str, str]] = {}
  outside: str = OUTSIDE
  others: Collection[str] = ()  # tags that are in no layout

  def __str__(self) -> str:
    if not self.layout:
      return "IO (types alone)" if self.name else "none (single words)"
    separator, is_suffix, _ = self.layout
    affix = "suffix" if is_suffix else "prefix"
    return f"{self.name} ({affix}, separator {separator!r})"

  def split(self, tag: str) -> tuple[str, str]:
    """Letter and type; a tag without a letter is as one with "I"."""
    return self.parts.get(tag, ("I", tag))

  def entities(self, tags: Sequence[str]) -> list[Entity]:
    """Entities of a sentence, by the rules of conlleval, from left to right.

    An entity begins with B- or S-, with any tag after "O" or another type, and
    after E- or S-. M is as I, L as E, U and W as S. A single word is an entity.
    """
    result = []
    letter, kind, begin = OUTSIDE, "", 0
    for word, tag in enumerate([*tags, self.outside]):
      last_letter, last_kind = letter, kind
      letter, kind = self.split(tag)
      begins = letter != OUTSIDE and (
        letter in "BSUW"
        or last_letter in "OESLUW"
        or kind != last_kind
        or not self.name
      )
      if last_letter != OUTSIDE and (begins or letter == OUTSIDE):
        result.append(Entity(last_kind, begin, word))
      if begins:
        begin = word
    return result

  def tag(self, letter: str, kind: str) -> str:
    if not self.layout:
      return kind
    separator, is_suffix, is_lower = self.layout
    letter = letter.lower() if is_lower else letter
    parts = (kind, letter) if is_suffix else (letter, kind)
    return separator.join(parts) if kind else letter

  def convert(self, tags: Sequence[str], target: "Scheme") -> list[str]:
    """The same entities in the tags of another scheme."""
    result = [target.outside] * len(tags)
    pattern = PATTERNS.get(target.name, "IIIIII")
    last = None
    for kind, begin, end in self.entities(tags):
      first, only = (4, 5) if last == (kind, begin) else (0, 3)
      inner = [1] * (end - begin - 2)
      indices = [only] if end - begin == 1 else [first, *inner, 2]
      result[begin:end] = [target.tag(pattern[i], kind) for i in indices]
      last = kind, end
    return result


def recognize(tags: Collection[str]) -> Scheme:
  """The scheme of all tags of a file or a model."""
  left = {*tags} - {OUTSIDE}
  layouts: list[Layout] = []
  parts: Parts = {}
  while layout_parts := _main_layout(
    left, {kind for _, kind in parts.values()}
  ):
    layouts.append(layout_parts[0])  # several are a mix
    parts |= layout_parts[1]
    left -= parts.keys()
  if not layouts:
    # The brackets of CoNLL-2012, as in (PER* and *), are of several words.
    others = {tag for tag in left if "(" in tag and "*" in tag}
    name = "IO" if OUTSIDE in tags else ""
    return Scheme(name, None, {OUTSIDE: (OUTSIDE, "")}, others=others)
  letters = {letter for letter, _ in parts.values()}

  def fit(name):
    pattern = {*PATTERNS[name]}
    has_single = PATTERNS[name][3] in letters
    return len(letters & pattern), has_single, -len(pattern)

  name = max(PATTERNS, key=fit)  # the first of the best
  outsides = [tag for tag in _OUTSIDES if tag in tags] or [OUTSIDE]
  parts |= dict.fromkeys(outsides, (OUTSIDE, ""))
  return Scheme(name, layouts[0], parts, outsides[0], left - parts.keys())


def _main_layout(
  tags: Collection[str], kinds: Collection[str]
) -> tuple[Layout, Parts] | None:
  """Layout of most tags, and their parts; None if they have it by chance.

  `kinds` are types of other tags.
  """
  by_layout: dict[Layout, Parts] = defaultdict(dict)
  for tag in tags:
    for letter, separator, kind, is_suffix in (
      (tag[0], tag[1:2], tag[2:], False),
      (tag[-1], tag[-2:-1], tag[:-2], len(tag) > 1),
    ):
      is_tag = letter.upper() in [*"BIESMLUW"] and not separator.isalnum()
      if is_tag and bool(separator) == bool(kind):
        layout = separator, is_suffix, letter.islower()
        by_layout[layout][tag] = letter.upper(), kind
  ranks = []
  for layout, parts in by_layout.items():
    letters = {letter for letter, _ in parts.values()}
    has_begin, is_usual = "B" in letters, layout == USUAL
    # Not such as Vitamin-B, Vitamin-E.
    is_likely = has_begin and (len(letters) != 2 or bool(letters & {*"IM"}))
    is_likely &= 2 * len(parts) >= len(tags)
    is_likely |= all(kind in kinds for _, kind in parts.values())
    if not layout[0]:
      is_likely = parts.keys() == tags and (has_begin or letters == {"I"})
    if is_likely or is_usual:
      rank = len(parts), has_begin, len(letters), is_usual, not layout[1]
      ranks.append((*rank, layout))
  layout = max(ranks)[-1] if ranks else None
  return layout and (layout, by_layout[layout])
