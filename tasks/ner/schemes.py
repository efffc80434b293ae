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
# Tags of words outside of entities, if other tags have letters.
_OUTSIDES = (OUTSIDE, "-", "_", "0")
_PREFIXED = re.compile(r"([BIESMLUW])(?:([\W_])(.+))?")  # B-PER, and B alone
_SUFFIXED = re.compile(r"(.+)([\W_])([BIESMLUW])")
# How tags are written: the separator of letter and type ("" if tags have no
# types), and True if the letter is a suffix.
Layout = tuple[str, bool]
USUAL: Layout = ("-", False)
Parts = dict[str, tuple[str, str]]  # tag -> letter, type


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
  parts: Mapping[str, tuple[str, str]] = {}  # tag -> letter, type
  outside: str = OUTSIDE
  others: Collection[str] = ()  # tags that are perhaps of an unknown scheme

  def __str__(self) -> str:
    return self.name or "none (single words)"

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
    separator, is_suffix = self.layout
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
  """Recognizes the scheme from the set of a file's or a model's tags.

  Tags have a layout if one has the letter B or I, or most have S, U or W. If a
  file mixes layouts, a tag that fits several has the layout of most tags.
  """
  inside = sorted({*tags} - {*_OUTSIDES, ""})
  by_layout: dict[Layout, Parts] = defaultdict(dict)
  for tag in inside:
    if match := _PREFIXED.fullmatch(tag):
      letter, separator, kind = match.groups(default="")
      by_layout[separator, False][tag] = letter, kind
    if match := _SUFFIXED.fullmatch(tag):
      kind, separator, letter = match.groups()
      by_layout[separator, True][tag] = letter, kind
  letters_of = {k: {x for x, _ in by_layout[k].values()} for k in by_layout}
  # Letters alone are types beside other tags.
  full = [k for k in by_layout if k[0] or len(by_layout[k]) == len(inside)]
  single = [k for k in by_layout if letters_of[k] in ({"S"}, {"U"}, {"W"})]
  layouts = [k for k in full if letters_of[k] & {"B", "I"}] or [
    k for k in single if k[0] and 2 * len(by_layout[k]) > len(inside)
  ]
  fitting = {k: v[0] for own in layouts for k, v in by_layout[own].items()}
  if len({*fitting.values()}) == 1 and 2 * len(fitting) < len(inside):
    layouts = []  # B-cell beside T-cell and protein is a type
  if not layouts:
    name = "IO" if OUTSIDE in tags else ""
    # Most tags of an unknown scheme (BEGIN-PER, INSIDE-PER) differ at first.
    types = {tag: re.split("[-_:.]", tag, maxsplit=1)[-1] for tag in inside}
    numbers = Counter(types.values())
    others = [tag for tag, kind in types.items() if numbers[kind] > 1]
    others = others if 2 * len(others) > len(inside) else []
    return Scheme(name, None, {OUTSIDE: (OUTSIDE, "")}, others=others)
  # The last layout has the most tags; of several such, it has a prefix.
  layouts.sort(key=lambda layout: (len(by_layout[layout]), not layout[1]))
  parts: Parts = {}
  for layout in layouts:
    parts |= by_layout[layout]
  letters = {letter for letter, _ in parts.values()}

  def fit(name):
    pattern = PATTERNS[name]
    only = pattern[-1]  # an entity of one word
    return len(letters & {*pattern}), only in letters, -len({*pattern})

  name = max(PATTERNS, key=fit)  # the first of several with the best fit
  outsides = [tag for tag in _OUTSIDES if tag in tags] or [OUTSIDE]
  others = [tag for tag in inside if tag not in parts]
  parts |= dict.fromkeys(outsides, (OUTSIDE, ""))
  return Scheme(name, layouts[-1], parts, outsides[0], others)
