"""Token classification: CoNLL files."""

PROGRAM = "run_ner"  # trains this task
