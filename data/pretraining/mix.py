"""What stands in the place of the words that are to be predicted."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mix:
  """How many of the chosen words become what (table 8 of the paper).

  Attributes:
    mask_share: of them, that become [MASK].
    random_share: that become a token drawn from the whole vocabulary; what is
      left stays the same.

  Raises:
    ValueError: they are no shares, or make up more than all.
  """

  mask_share: float = 0.8
  random_share: float = 0.1

  def __post_init__(self):
    """Refuses what no word can become."""
    shares = (self.mask_share, self.random_share)
    if not (min(shares) >= 0.0 and sum(shares) <= 1.0 + 1e-9):
      raise ValueError(
        f"mask_share {self.mask_share:g} and random_share "
        f"{self.random_share:g} must be 0 or more, and 1 together at most"
      )

  @property
  def same_of_rest(self) -> float:
    """Of the words that do not become [MASK], the share that stays the same."""
    rest = 1.0 - self.mask_share
    # Rounded, so that a half is exactly what the original compares with.
    return round(1.0 - self.random_share / rest, 12) if rest > 1e-9 else 1.0


USUAL = Mix()
