"""Loops that several nouns use.

No noun.
"""
