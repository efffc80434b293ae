"""Checkpoints of other projects, to and from the original's names and files."""
