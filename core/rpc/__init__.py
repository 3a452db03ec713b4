"""gRPC calls between control plane and agent: the port, and its two implementations.

The implementations are Towline's own HTTP/2 and grpcio. Meaning of messages, authorization and
reconnects are elsewhere.
"""
