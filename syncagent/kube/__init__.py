"""The API server of this cluster: credentials, discovery, requests, watches.
Only this package speaks HTTP to Kubernetes; it knows nothing of services and bundles.
"""
