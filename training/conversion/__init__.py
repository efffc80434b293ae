"""Checkpoints of others, from and to the names and files of the original."""
