"""A task with its own head and loss: the example of CONTRIBUTING.md.

All files of this task are in this folder. A task of the project has a folder in
tasks/, a program beside run_classifier.py, and head and loss in modeling/.
"""
