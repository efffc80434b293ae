"""The network of the paper, in Keras alone: it runs on any Keras backend."""
