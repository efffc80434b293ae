"""Words masked once, when records are made, with the draws of random.Random."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from data.vocab import MASK, SEP


@dataclass(frozen=True)
class MaskPolicy:
  """Probabilities of [MASK] and of a random token in place of a masked word.

  Other words stay unchanged (table 8 of the paper). Negative probabilities, and
  more than 1 together, are a ValueError.
  """

  mask_token_prob: float = 0.8
  random_token_prob: float = 0.1

  def __post_init__(self):
    """Checks the probabilities."""
    probs = (self.mask_token_prob, self.random_token_prob)
    if not (min(probs) >= 0.0 and sum(probs) <= 1.0 + 1e-9):
      raise ValueError(
        f"mask_token_prob {self.mask_token_prob:g} and random_token_prob "
        f"{self.random_token_prob:g} must be 0 or more, and 1 together at most"
      )

  @property
  def keep_prob(self) -> float:
    """Probability that a word that does not become [MASK] stays unchanged."""
    rest = 1.0 - self.mask_token_prob
    if rest <= 1e-9:
      return 1.0
    # Rounded, so that the default is exactly the 0.5 of the original.
    return round(1.0 - self.random_token_prob / rest, 12)


@dataclass(frozen=True)
class Masking:
  """Choice and replacement of masked tokens; see the flags of these names.

  Attributes:
    max_predictions_per_seq: P, the largest number of tokens to mask.
    masked_lm_prob: fraction of the tokens to mask.
    whole_word: mask all pieces of a word or none.
    policy: replacement of the masked tokens.

  Raises:
    ValueError: a number is out of range.
  """

  max_predictions_per_seq: int = 20
  masked_lm_prob: float = 0.15
  whole_word: bool = False
  policy: MaskPolicy = MaskPolicy()

  def __post_init__(self):
    """Checks the values."""
    if self.max_predictions_per_seq < 1:
      raise ValueError(
        f"max_predictions_per_seq {self.max_predictions_per_seq} must be 1 or "
        "more"
      )
    if not 0 <= self.masked_lm_prob <= 1:
      raise ValueError(
        f"masked_lm_prob {self.masked_lm_prob} is not within 0 and 1"
      )


DEFAULT = Masking()


class StaticMasking:
  """Masks words of a sequence (section 3.1, task 1, of the paper).

  Arguments:
    vocab: token to id, in the order of the vocabulary file.
    masking: choice and replacement of tokens.

  Call arguments:
    ids: token ids with [CLS] and [SEP]; masked in place.

  Returns:
    Positions in ascending order, P at most, and the original ids there.
  """

  def __init__(self, vocab: Mapping[str, int], masking: Masking):
    self._masking = masking
    self._mask_token_prob = masking.policy.mask_token_prob
    self._keep_prob = masking.policy.keep_prob
    self._mask, self._sep = vocab[MASK], vocab[SEP]
    self._all_ids = list(vocab.values())
    self._continuations = frozenset(
      vocab[token] for token in vocab if token.startswith("##")
    )

  def __call__(
    self, ids: list[int], rng: Random
  ) -> tuple[list[int], list[int]]:
    """Masks a sequence."""
    random, getrandbits = rng.random, rng.getrandbits
    labels = {}
    for position in self._choose(ids, rng):
      labels[position] = ids[position]
      if random() < self._mask_token_prob:
        ids[position] = self._mask
      elif random() >= self._keep_prob:
        drawn = randbelow(getrandbits, len(self._all_ids))
        ids[position] = self._all_ids[drawn]
    positions = sorted(labels)
    return positions, [labels[position] for position in positions]

  def _choose(self, ids: list[int], rng: Random) -> list[int]:
    """Chooses the positions to mask."""
    limit = max(1, round(len(ids) * self._masking.masked_lm_prob))
    limit = min(self._masking.max_predictions_per_seq, limit)
    middle = ids.index(self._sep)
    candidates = [*range(1, middle), *range(middle + 1, len(ids) - 1)]
    if not self._masking.whole_word:
      shuffle(rng.getrandbits, candidates)
      return candidates[:limit]

    words = []
    for position in candidates:
      if words and ids[position] in self._continuations:
        words[-1].append(position)
      else:
        words.append([position])
    shuffle(rng.getrandbits, words)
    chosen = []
    for word in words:
      if len(chosen) + len(word) <= limit:
        chosen += word
    return chosen


def randbelow(getrandbits: Callable[[int], int], limit: int) -> int:
  """`Random.randrange(limit)`: same draws and result, faster."""
  bits = limit.bit_length()
  drawn = getrandbits(bits)
  while drawn >= limit:
    drawn = getrandbits(bits)
  return drawn


def shuffle(getrandbits: Callable[[int], int], items: list) -> None:
  """`Random.shuffle(items)`: same draws and result, in half the time."""
  last = len(items) - 1
  while last > 0:
    bits = (last + 1).bit_length()
    # The same number of bits is drawn for all i down to this one.
    first = max((1 << bits - 1) - 1, 1)
    for i in range(last, first - 1, -1):
      drawn = getrandbits(bits)
      while drawn > i:
        drawn = getrandbits(bits)
      items[i], items[drawn] = items[drawn], items[i]
    last = first - 1
