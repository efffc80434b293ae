"""From text to pre-training batches: vocabulary, pairs, masks, records."""
