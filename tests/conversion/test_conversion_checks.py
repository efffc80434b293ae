"""Differences after a conversion are errors."""

import numpy as np
import pytest

from conversion.conversion_checks import check_values
from conversion.interchange import CanonicalModel

CONFIG = {"vocab_size": 3, "hidden_act": "gelu"}


def _bert(config=CONFIG, **values):
  result = {"a": np.zeros(2, np.float32), "b": np.ones(1, np.float32)}
  return CanonicalModel("x", result | values, config)


@pytest.mark.parametrize(
  ("back", "wrong"),
  [
    (_bert(a=np.array([0.0, -0.0], np.float32)), "a"),
    (_bert(a=np.zeros(2)), "a"),
    (_bert(a=np.zeros((1, 2), np.float32)), "a"),
    (_bert(c=np.zeros(2)), "c"),
    (_bert(CONFIG | {"hidden_act": "gelu_erf"}), "hidden_act"),
  ],
)
def test_what_is_not_the_same_is_named(back, wrong):
  with pytest.raises(
    ValueError, match=f"not written faithfully to x: {wrong}$"
  ):
    check_values(_bert(), back)


def test_what_is_the_same_passes():
  nan = {"a": np.full(2, np.nan, np.float32)}
  check_values(_bert(**nan), _bert(CONFIG | {"more": 1}, **nan))
