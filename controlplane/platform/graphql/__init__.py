"""GraphQL for all nouns: context, paging, scalars, limits and execution.

No noun.
"""
