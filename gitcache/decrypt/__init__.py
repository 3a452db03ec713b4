"""Decrypts files in git: the SOPS format, and the keys of each project.

No git, network or renderer here; keys never leave this package.
"""
