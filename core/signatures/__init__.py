"""Signatures of commits and artifacts, and the keys that a project or a cluster trusts.

Signatures of Towline itself, such as those of bundles, are in `core.spec.statements`.
"""
