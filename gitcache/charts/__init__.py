"""Fetches and pins Helm charts from chart repositories and OCI registries, within limits.

No unpacking, YAML parsing or rendering here: the workers do that.
"""
