"""Values and pure rules of audit.

No store, no clock, no network.
"""
