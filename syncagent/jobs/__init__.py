"""Jobs that the control plane asks for: run once by name, watched to their end, told durably.

Knows Kubernetes' Job and Pod by the port `JobCluster`; speaks to no server and no disk itself.
"""
