"""Tokenizers, record schemas, input pipelines and builders of records."""
