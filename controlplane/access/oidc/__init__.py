"""OpenID Connect as a client: discovery, keys and tokens.

Network only through the outbound client.
"""
