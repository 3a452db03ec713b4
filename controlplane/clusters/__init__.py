"""Clusters, groups of clusters, commands to agents, and settings of agents.

No services: `ClusterContents` stands for them.
"""
