"""How a model is optimized, distributed, saved and resumed."""
