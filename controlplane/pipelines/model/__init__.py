"""Values and pure rules of pipelines.

No store, no clock, no network.
"""
