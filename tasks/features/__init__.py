"""Feature extraction: activations of chosen layers."""

PROGRAM = None  # no program trains this task
