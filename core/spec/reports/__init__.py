"""The reports of agents: what happened in a cluster.

The values of the desired state belong to the package above.
"""
