"""HTTP server of exported models, with TF Serving's REST API."""
