"""HTTP/1.1 (RFC 9112): framing of bodies and responses, and connections of clients.

No routing or rewriting here.
"""
