"""Question answering: SQuAD 1.1 and 2.0."""

PROGRAM = "run_squad"  # trains this task
