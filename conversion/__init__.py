"""Converts other projects' checkpoints to and from the original's format."""
