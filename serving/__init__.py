"""Inference in the graph: raw text to named answers, and exports of it."""
