"""HTTP/1.1 framing (RFC 9112) for both ends of the Kubernetes proxy.

Finds the end of bodies and responses in bytes. No sockets, routing or rewriting here.
"""
