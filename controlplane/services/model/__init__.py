"""Values and pure rules of services.

No store, no clock, no network.
"""
