"""Follows OCI artifacts with manifests like git repositories: each artifact becomes a commit.

No unpacking here: the workers do that.
"""
