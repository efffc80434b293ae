"""Ratings of texts: a number by the mean of a text's tokens."""

PROGRAM = "run_rating"
