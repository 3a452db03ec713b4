"""Configuration in the GraphQL API.

Thin resolvers over the operations.
"""
