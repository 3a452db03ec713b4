"""The agent's own well-being: whether it lives, what it counts, what hinders it, its successor.

Nothing of services and their objects; nothing that decides for the control plane.
"""
