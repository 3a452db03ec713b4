"""The GraphQL schema, assembled from the `api` of each noun.

No logic: resolvers call operations.
"""
