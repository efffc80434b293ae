"""Classification and regression of texts and text pairs: GLUE, XNLI, tsv."""
