"""HTTP for all nouns: pages, host checks and bearer tokens.

No code that belongs to one noun.
"""
