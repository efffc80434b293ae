"""A task with its own head and loss: the example of CONTRIBUTING.md.

All files of this example are in this folder. A task that is part of the project
has a folder in tasks/, a program next to run_classifier.py, and its head and
loss in modeling/.
"""
