"""Inference: engines, answers to texts, exports, a server, HTML pages."""
