"""Documents, their fields and their owners.

No store and no operations.
"""
