"""OpenID Connect as a client: discovery, keys, codes with PKCE, and judging ID tokens.

Who a verified subject is here, and what they may do, is not decided here.
"""
