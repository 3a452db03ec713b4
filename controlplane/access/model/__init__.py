"""Values and pure rules of access.

No store, no clock, no network.
"""
