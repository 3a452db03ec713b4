"""Kubernetes' own e2e specs, run against the API server and through the Kubernetes proxy.

Specs that need programs in pods, nodes of a cloud or more than one node are not among them.
"""
