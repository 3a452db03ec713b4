"""Helm charts from chart repositories and OCI registries, fetched within bounds and pinned.

No unpacking, no parsing of foreign YAML and no rendering here: that is the workers' part.
"""
