"""The agent's one connection to the control plane: Sync, Fetch, and when to connect again.

Converts between the wire and the domain; decides nothing about services.
"""
