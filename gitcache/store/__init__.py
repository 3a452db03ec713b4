"""Stores rendered bundles by digest, in files with a memory cache.

Nothing here knows git or rendering.
"""
