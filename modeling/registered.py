"""Registers all layers with Keras.

After `import modeling.registered`, keras.saving.load_model opens what was
saved. `import modeling` alone does not import Keras: programs read sizes from
modeling.config before they import it.
"""

from modeling import bert, feature_based, heads

__all__ = ["bert", "feature_based", "heads"]
