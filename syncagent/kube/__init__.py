"""The API server of this cluster: credentials, discovery, requests, watches.

The only room that speaks HTTP to Kubernetes; it knows nothing of services and bundles.
"""
