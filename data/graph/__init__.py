"""What data/tokenization_ops.py is made of: Unicode tables and graph ops."""
