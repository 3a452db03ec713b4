"""Domain model: clusters, services, revisions, pipelines, users and permissions as values and pure
rules.

Nothing here performs IO or reads a clock. Callers pass the time as `now`.
"""
