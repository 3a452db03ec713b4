"""Watches of owned objects and their descendants, and of the API server itself.

No writes to the cluster.
"""
