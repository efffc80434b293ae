"""Optimizer, training loop, checkpoints and run records."""
