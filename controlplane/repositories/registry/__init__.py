"""A client of OCI registries (OCI Distribution Specification 1.1).

Read-only.
"""
