"""Values and pure rules of clusters.

No store, no clock, no network.
"""
