"""A run, from settings to checkpoints."""
