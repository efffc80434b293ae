"""The network of the paper, for any Keras backend."""
