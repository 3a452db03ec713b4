"""Values and pure rules of agents.

No store, no clock, no network.
"""
