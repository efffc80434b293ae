"""Feature extraction: activations of chosen layers."""

PROGRAM = None  # nothing is trained
