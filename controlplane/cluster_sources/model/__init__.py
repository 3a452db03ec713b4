"""Cluster sources, the objects that they find, and the manifests that let clusters join.

No store and no operations.
"""
