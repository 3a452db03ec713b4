"""HTTP routes of access.

Routes call operations.
"""
