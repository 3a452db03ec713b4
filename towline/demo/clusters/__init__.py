"""Real Kubernetes clusters on one machine, without containers or root: built once, up in seconds.

Only what makes a cluster exist belongs here, nothing of Towline's own parts.
"""
