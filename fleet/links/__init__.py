"""Transports that carry the mux's messages between hub and agent; gRPC is the first.

Nothing here looks into a message, knows a cluster or decides when to dial.
"""
