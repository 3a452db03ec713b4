"""The protocol between control plane and agents.

`v1` holds what is sent, `limits` the bounds on it; nothing here opens a connection.
"""
