"""Configuration sources, and the rules of their reconciliation.

No store and no operations.
"""
