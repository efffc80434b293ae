"""Token classification: CoNLL files."""

PROGRAM = "run_ner"  # that trains it
