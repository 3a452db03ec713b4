"""Values and pure rules of notifications.

No store, no clock, no network.
"""
