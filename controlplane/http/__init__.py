"""The HTTP application: GraphQL, health, version, and what other parts add to it.

Who is calling is found out here; what they may do is not decided here.
"""
