"""The agent's use cases: bring a service to its desired state, keep it there, say how it is.

Only ports and domain are used here; when something is done again is decided in `engine`.
"""
