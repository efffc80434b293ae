"""One folder for each task; open.py has their models as functions of texts."""
