"""Ratings of texts: a number, from the mean of the tokens."""

PROGRAM = "run_rating"
