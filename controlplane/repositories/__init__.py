"""Git and Helm repositories and OCI registries.

No services: `RepositoryUsers` stands for them.
"""
