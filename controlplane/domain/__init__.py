"""Clusters, services, revisions, pipelines, people and rights as values and pure rules.

Nothing here does IO or reads a clock; time comes in as `now`.
"""
