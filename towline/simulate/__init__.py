"""The simulator: thousands of agents with the real link, scenarios, what they cost, the report.

Neither a Kubernetes client nor anything that a running control plane or agent needs may live here.
"""
