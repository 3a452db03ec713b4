"""Values and pure rules of reports.

No store, no clock, no network.
"""
