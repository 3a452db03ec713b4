"""Cluster sources: objects in a management cluster whose clusters are registered and join.

Registration of one cluster and its bootstrap token belong to `controlplane.clusters`.
"""
