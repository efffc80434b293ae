"""Multiple choice: SWAG and similar data."""

PROGRAM = "run_swag"  # that trains it
