"""The agent of one cluster: receives desired state over its one outbound connection and applies it.
It runs in users' clusters, so this package imports nothing of the control plane and nothing large.
"""
