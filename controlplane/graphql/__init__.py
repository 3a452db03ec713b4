"""The GraphQL API: thin resolvers over the use cases, and the schema that is printed from them.

Resolvers convert; rights and decisions belong to the use cases. The only room that knows
strawberry.
"""
