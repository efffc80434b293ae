"""Files, TFRecords, worker processes and progress."""
