"""Multiple choice: SWAG and similar data."""

PROGRAM = "run_swag"  # trains this task
