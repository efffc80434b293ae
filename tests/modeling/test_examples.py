"""Runs the examples in modeling/'s docstrings."""

import doctest

import keras
import pytest

from modeling import (
  bert,
  config,
  encoder_variants,
  heads,
  layers,
  losses,
  models,
)

MODULES = [bert, config, encoder_variants, heads, layers, losses, models]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_of_a_module_are_true(module):
  result = doctest.testmod(module)
  assert result.attempted > 0 == result.failed


def test_classes_that_keras_saves_have_examples():
  classes = keras.saving.get_custom_objects()
  own = [c for name, c in classes.items() if name.startswith("bert>")]
  assert len(own) > 10
  for kind in own:
    if kind.__module__.startswith("modeling."):
      assert ">>> " in kind.__doc__, kind
