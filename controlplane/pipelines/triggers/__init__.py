"""Kinds of triggers of releases.

The work that polls triggers, and the engine that starts releases, do not belong here.
"""
