"""Pre-training: masked language model and next sentence prediction."""

PROGRAM = "run_pretraining"  # trains this task
