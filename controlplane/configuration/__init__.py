"""Service contexts, and values that services export and import.

Secrets are a noun of their own.
"""
