"""The agent of one cluster: takes desired state over its one outbound connection and keeps it true.

Nothing of the control plane may be imported here, and nothing large: it runs in users' clusters.
"""
