"""Common parts of all nouns: transactions, events, rate limits, outbound requests, GraphQL, HTTP.

Imports no noun.
"""
