"""Triggers of releases: their kinds, and the selection of versions.

The work that polls triggers, and the engine that starts releases, do not belong here.
"""
