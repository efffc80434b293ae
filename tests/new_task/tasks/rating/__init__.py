"""Rates texts: one number a text, from the mean of the token vectors."""

PROGRAM = "run_rating"
