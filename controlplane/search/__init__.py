"""Search over the objects of all clusters, and over names.

Read-only.
"""
