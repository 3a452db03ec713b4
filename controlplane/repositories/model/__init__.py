"""Values and pure rules of repositories.

No store, no clock, no network.
"""
