"""One folder for each task: examples, records, metrics, serving."""
