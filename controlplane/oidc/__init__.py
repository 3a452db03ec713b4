"""OpenID Connect client: discovery, keys, codes with PKCE, and validation of ID tokens.

Does not map subjects to users and does not authorize.
"""
