"""Pre-training: masked language model and next sentence prediction."""

PROGRAM = "run_pretraining"  # that trains it
