"""Simulator: runs scenarios with thousands of agents over the real protocol, and reports costs.

Production code of control plane and agent must not import it.
"""
