"""Transports of mux messages between control plane and agent.

Nothing here reads a message, knows a cluster or decides when to connect.
"""
