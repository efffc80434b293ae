"""Has a folder for each task. open.py opens models as functions of texts."""
