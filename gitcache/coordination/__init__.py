"""Ownership of repositories and events between replicas: in one process, or through Redis.

Nothing here knows git, and no request waits for Redis.
"""
