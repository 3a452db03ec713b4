"""Controllers that deliver a folder of Git to a cluster, directly and through the proxy.

Each runs outside the cluster, and keeps its own objects there; only its target differs.
"""
