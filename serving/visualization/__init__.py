"""One HTML file that shows how a model reads the texts of an example."""
