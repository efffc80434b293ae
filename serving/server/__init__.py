"""HTTP server for exported models, with TF Serving's REST API."""
