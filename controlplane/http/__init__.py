"""The HTTP application: GraphQL, health, version, and routes of other packages.

Authenticates callers; does not authorize them.
"""
