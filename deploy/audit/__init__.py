"""Finds known vulnerabilities of locked packages, of Python and of the console.

Two tools query their registries; there is no local list of advisories and no offline check.
"""
