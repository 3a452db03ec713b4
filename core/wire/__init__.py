"""The protocol between control plane and agents.

`v1` defines the messages, `limits` their bounds; nothing here opens a connection.
"""
