"""The agent's own maintenance: liveness, metrics, diagnosis, upgrade.
This package knows nothing of services and their objects.
"""
