"""Jobs that the control plane requests: run once by name, watched to their end, reported durably.
This package uses Kubernetes' Job and Pod through the port `JobCluster`, without server or disk
access of its own.
"""
