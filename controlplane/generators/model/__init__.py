"""Values and pure rules of generators.

No store, no clock, no network.
"""
