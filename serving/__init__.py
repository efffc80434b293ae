"""Inference: rows to outputs, texts to answers, exports, a server, a page."""
