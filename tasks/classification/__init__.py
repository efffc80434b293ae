"""Classification and regression of texts and text pairs: GLUE, XNLI, tsv."""

PROGRAM = "run_classifier"  # trains this task
