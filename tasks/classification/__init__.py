"""Classification and regression of texts and text pairs: GLUE, XNLI, tables."""

PROGRAM = "run_classifier"  # trains this task
