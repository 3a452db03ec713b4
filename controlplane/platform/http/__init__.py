"""HTTP for all nouns: pages, host checks and bearer tokens.

No noun.
"""
