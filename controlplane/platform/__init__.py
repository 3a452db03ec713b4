"""What all nouns stand on: transactions, events, rate limits, outbound requests, GraphQL and HTTP.

Imports no noun.
"""
