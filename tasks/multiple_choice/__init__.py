"""Multiple choice: SWAG and similar data."""
