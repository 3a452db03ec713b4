"""The agent's one connection to the control plane: Sync, Fetch, and reconnection.
This package converts between the wire and the domain; it decides nothing about services.
"""
