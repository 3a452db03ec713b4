"""Loops that several nouns use.

No code that belongs to one noun.
"""
