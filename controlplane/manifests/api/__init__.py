"""The API of manifests.

No decisions: resolvers call operations.
"""
