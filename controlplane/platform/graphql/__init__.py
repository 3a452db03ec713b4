"""GraphQL for all nouns: context, paging, scalars, limits and execution.

No code that belongs to one noun.
"""
