"""Token classification: CoNLL files."""
