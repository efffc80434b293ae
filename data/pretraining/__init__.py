"""From prose to pre-training batches: vocabulary, pairs, masks, records."""
