"""Several replicas of the Kubernetes proxy: a registry of agent links, and one hop to the replica
that holds a link.
A single process uses nothing of this. The gateway authorizes requests.
"""
