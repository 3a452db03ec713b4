"""Values and pure rules of configuration.

No store, no clock, no network.
"""
