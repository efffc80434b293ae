"""Feature extraction: activations of chosen layers."""
