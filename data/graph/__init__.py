"""Parts of data/tokenization_ops.py: Unicode tables and graph operations."""
