"""The HTTP application: GraphQL, health, metrics and the console.

No decisions: routes call operations.
"""
