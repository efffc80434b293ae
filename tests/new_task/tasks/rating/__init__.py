"""Rates texts: one number a text, computed from the mean of its tokens."""

PROGRAM = "run_rating"
