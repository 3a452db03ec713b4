"""The agent's operations: sync a service to its desired state, keep it in sync, report its status.
They use only ports and domain; `engine` decides about retries.
"""
