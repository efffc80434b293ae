"""Words masked while records are made, by the original's rules and draws.

The same rules for records masked while they are read are in masking.py.

Legend: P masked-LM predictions.
"""

from collections.abc import Mapping
from random import Random

from data.pretraining.mix import USUAL, Mix
from data.pretraining.sampling import below, shuffle
from data.vocab import MASK, SEP


class StaticMasking:
  """Masks words of a sequence, once and for all (section 3.1, task 1).

  By default a chosen token becomes [MASK] in 80 % of the cases, stays in 10 %
  and becomes a token drawn from the whole vocabulary in 10 %.

  Arguments:
    vocab: token to id, in the order of the vocabulary file.
    max_predictions: P, how many tokens are chosen at most.
    masked_lm_prob: share of the tokens that are chosen.
    whole_word: choose all pieces of a word or none.
    mix: what becomes of the chosen ones.

  Call arguments:
    ids: token ids with [CLS] and [SEP]; masked in place.
    rng: source of randomness.

  Returns:
    Positions in ascending order, P at most, and the ids that were there.
  """

  def __init__(
    self,
    vocab: Mapping[str, int],
    max_predictions: int,
    masked_lm_prob: float = 0.15,
    whole_word: bool = False,
    mix: Mix = USUAL,
  ):
    self._max_predictions = max_predictions
    self._masked_lm_prob = masked_lm_prob
    self._whole_word = whole_word
    self._mask_share, self._same = mix.mask_share, mix.same_of_rest
    self._mask, self._sep = vocab[MASK], vocab[SEP]
    self._all_ids = list(vocab.values())
    self._continues = frozenset(
      vocab[token] for token in vocab if token.startswith("##")
    )

  def __call__(
    self, ids: list[int], rng: Random
  ) -> tuple[list[int], list[int]]:
    """Masks a sequence."""
    random, getrandbits = rng.random, rng.getrandbits
    masked = []
    for position in self._choose(ids, rng):
      label = ids[position]
      if random() < self._mask_share:
        ids[position] = self._mask
      elif random() >= self._same:
        drawn = below(getrandbits, len(self._all_ids))
        ids[position] = self._all_ids[drawn]
      masked.append((position, label))
    masked.sort()
    return [position for position, _ in masked], [label for _, label in masked]

  def _choose(self, ids: list[int], rng: Random) -> list[int]:
    share = round(len(ids) * self._masked_lm_prob)
    wanted = min(self._max_predictions, max(1, share))
    middle = ids.index(self._sep)
    candidates = [*range(1, middle), *range(middle + 1, len(ids) - 1)]
    if not self._whole_word:
      shuffle(rng.getrandbits, candidates)
      return candidates[:wanted]

    words = []
    for position in candidates:
      if words and ids[position] in self._continues:
        words[-1].append(position)
      else:
        words.append([position])
    shuffle(rng.getrandbits, words)
    chosen = []
    for word in words:
      if len(chosen) + len(word) <= wanted:
        chosen += word
    return chosen
