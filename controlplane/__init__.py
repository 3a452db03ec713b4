"""The control plane: what is desired of the fleet, who may say so, and what became of it.

No Kubernetes client and no git here: clusters are reached through agents, git through ports.
"""
