"""The agent's one connection to the control plane: Sync, Fetch, and reconnection.
This package speaks the protocol of `core.wire`; it decides nothing about services.
"""
