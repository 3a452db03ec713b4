"""The GraphQL API: resolvers over the operations, and the schema.

Resolvers only convert values. Operations authorize and decide. Only this package imports
strawberry.
"""
