"""The Kubernetes door: kubectl and its kin come in here, as themselves, into any cluster.

Nothing here knows services, pipelines or the control plane's store; it asks through its ports.
"""
