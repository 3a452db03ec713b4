"""Values and pure rules of secrets.

No store, no clock, no network.
"""
