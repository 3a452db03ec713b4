"""Renders that the control plane orders, for this cluster or for another one.

Nothing here decides what runs in the cluster: what is made goes back to who asked.
"""
