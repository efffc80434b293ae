"""Tag schemes: how the tags of words mark entities.

A tag has a letter (for the first, inner, last or only word of an entity) and a
type: "B-PER" or "PER-B". "B" has no type. A tag of the scheme IO is a type
alone. In a file of types without "O", a tag such as "NOUN" describes one word.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

OUTSIDE = "O"
# Letters of an entity's first, inner, last and only word. In IOB1 an entity
# begins with B only directly after an entity of the same type.
PATTERNS = {
  "BIO": "BIIB",
  "IOB1": "IIII",
  "BIOES": "BIES",
  "BIOS": "BIIS",
  "BILOU": "BILU",
  "BMES": "BMES",
  "BMEWO": "BMEW",
  "IOE2": "IIEE",
}
OUTSIDES = (OUTSIDE, "o", "-", "_", "0", "OUT", "NONE", "None", "none")
OUTSIDES += ("OUTSIDE", "OTHER", "Other", "other")
# Tags of grammar. In a file with such tags, "_" and "-" do not mean "outside".
_GRAMMAR = re.compile(r"[=|]|^[^\w-]$|^(NOUN|VERB|NN|VB|PUNCT|noun|verb|n|v)$")
# How tags are written: the separator of letter and type ("" if tags have no
# types), True if the letter is a suffix, True if the letter is in lower case.
Layout = tuple[str, bool, bool]
USUAL: Layout = ("-", False, False)
Parts = dict[str, tuple[str, str]]  # tag -> letter in upper case, type


class Entity(NamedTuple):
  """An entity in a sentence: words from `begin` to before `end`."""

  entity_type: str
  begin: int
  end: int


class Scheme(NamedTuple):
  """A tag scheme, and how a file writes its tags.

  `name` is a key of PATTERNS, or "IO", or "" for tags of single words. "IO" and
  "" have no layout.
  """

  name: str
  layout: Layout | None = USUAL
  parts: Mapping[str, tuple[str, str]] = {}
  outside: str = OUTSIDE
  others: Collection[str] = ()  # tags that fit no layout

  def __str__(self) -> str:
    if not self.layout:
      other = f", {self.outside!r} outside" * (self.outside != OUTSIDE)
      return f"IO (types alone{other})" if self.name else "none (single words)"
    separator, is_suffix, _ = self.layout
    affix = "suffix" if is_suffix else "prefix"
    return f"{self.name} ({affix}, separator {separator!r})"

  def split(self, tag: str) -> tuple[str, str]:
    """Letter and type of a tag; a tag without a letter gets "I"."""
    return self.parts.get(tag, ("I", tag))

  def entities(self, tags: Sequence[str]) -> list[Entity]:
    """Entities of a sentence by the rules of conlleval, from left to right.

    An entity begins at B or S, after E, S or "O", and where the type changes. M
    means I, L means E, U and W mean S. Without a scheme, a word is an entity.
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
    """Converts tags to `target`, another scheme; the entities stay the same."""
    result = [target.outside] * len(tags)
    first, inner, last, only = [*PATTERNS.get(target.name, "IIII")]
    previous = None
    for kind, begin, end in self.entities(tags):
      letters = first + inner * (end - begin - 2) + last
      if end - begin == 1:
        letters = only
      if target.name == "IOB1" and previous == (kind, begin):
        letters = "B" + letters[1:]
      result[begin:end] = [target.tag(letter, kind) for letter in letters]
      previous = kind, end
    return result


def recognize(tags: Collection[str]) -> Scheme:
  """Recognizes the scheme from the set of a file's or a model's tags."""
  left = {*tags} - {OUTSIDE, ""}
  layouts: list[Layout] = []
  parts: Parts = {}
  while layout_parts := _main_layout(left, {k for _, k in parts.values()}):
    layouts.append(layout_parts[0])  # a file may mix several layouts
    parts |= layout_parts[1]
    left -= parts.keys()
  if not layouts:
    outsides = [OUTSIDE, "OUT", "OUTSIDE", "NONE"]
    if not any(map(_GRAMMAR.search, tags)):
      outsides += "_", "-"
    if not all(map(str.isdigit, tags)):  # numbers alone may be ids of tags
      outsides.append("0")
    outside = next(filter(tags.__contains__, outsides), "")
    parts = {outside or OUTSIDE: (OUTSIDE, "")}
    name = "IO" if outside else ""
    return Scheme(name, None, parts, outside or OUTSIDE)
  letters = {letter for letter, _ in parts.values()}

  def fit(name):
    *_, only = pattern = PATTERNS[name]
    return len(letters & {*pattern}), only in letters, -len({*pattern})

  name = max(PATTERNS, key=fit)  # the first of several with the best fit
  outsides = [tag for tag in OUTSIDES if tag in tags] or [OUTSIDE]
  parts |= dict.fromkeys(outsides, (OUTSIDE, ""))
  others = sorted(left - parts.keys())
  return Scheme(name, layouts[0], parts, outsides[0], others)


def is_doubtful(scheme: Scheme, tags: Collection[str]) -> bool:
  """True if tags without a layout look like an unknown scheme.

  Tags of an unknown scheme differ only at the start: BEGIN-PER and INSIDE-PER,
  or BPER and IPER. Numbers alone are doubtful, too, because they may be ids.
  """
  types = {tag for tag in tags if tag.upper() not in OUTSIDES}
  if scheme.layout or not types:
    return False
  start = re.compile(r"^([^\W_]+[\W_]|[BIESMLUW](?=\w\w))")
  end_by_tag = {tag: start.sub("", tag) for tag in types}
  starts = {tag.removesuffix(end) for tag, end in end_by_tag.items()}
  ends = Counter(end_by_tag.values())
  alike = sum(number for number in ends.values() if number > 1)
  is_mostly_alike = 2 * alike > len(types) and len(starts) <= len(ends)
  is_number = re.compile(r"[\d.]+").fullmatch
  return alike == len(types) or is_mostly_alike or all(map(is_number, types))


def _main_layout(
  tags: Collection[str], kinds: Collection[str]
) -> tuple[Layout, Parts] | None:
  """Finds the layout of most `tags`, and the Parts of these tags; or None.

  `kinds` are the types that earlier calls have found in other tags.
  """
  by_layout: dict[Layout, Parts] = defaultdict(dict)
  for tag in sorted(tags):  # so that equal tags give a Scheme of equal repr
    for letter, separator, kind, is_suffix in (
      (tag[0], tag[1:2], tag[2:], False),
      (tag[-1], tag[-2:-1], tag[:-2], len(tag) > 1),
    ):
      is_tag = letter.upper() in [*"BIESMLUW"] and not separator.isalnum()
      if is_tag and bool(separator) == bool(kind):
        layout = separator, is_suffix, letter.islower()
        by_layout[layout][tag] = letter.upper(), kind
  ranks, num_types = [], len({*tags} - {*OUTSIDES})
  for layout, parts in by_layout.items():
    letters, types = map(set, zip(*parts.values(), strict=True))
    has_begin, is_main = "B" in letters, 2 * len(parts) >= len(tags)
    # Few tags such as E-mail or S-Bahn beside others are types.
    is_usual = layout == USUAL and (has_begin or 2 * len(parts) > num_types)
    # Vitamin-B and Vitamin-E are types.
    is_likely = has_begin and (len(letters) != 2 or bool(letters & {*"IM"}))
    is_likely |= letters == {*"IE"}
    is_likely &= is_main
    is_likely |= all(kind in kinds for _, kind in parts.values())
    if not layout[0]:
      is_likely = parts.keys() == {*tags} - {*OUTSIDES} and (
        has_begin or letters == {"I"}
      )
    if is_likely or is_usual:
      # In B-Hep-B, I-Hep-B the letter is the prefix, which leaves fewer types.
      rank = len(parts), has_begin, -len(types), is_usual, not layout[1]
      ranks.append((*rank, layout))
  layout = max(ranks)[-1] if ranks else None
  return layout and (layout, by_layout[layout])
