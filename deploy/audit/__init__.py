"""Finds locked packages, of Python and of the console, with vulnerabilities that are known.

Two tools ask their registries; no list of advisories lives here, and no check that is done offline.
"""
