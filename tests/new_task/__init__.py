"""A task with a head and a loss of its own: the example of CONTRIBUTING.md.

All of it is in this folder; a task of the project has its folder in tasks/, its
program beside the others, and head and loss in modeling/.
"""
