"""Clients that nobody here wrote, through the Kubernetes proxy, compared with the API server."""
