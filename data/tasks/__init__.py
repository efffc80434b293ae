"""From the files of each task to its records."""
