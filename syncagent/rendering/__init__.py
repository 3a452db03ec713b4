"""Renders ordered by the control plane, for this cluster or for another one.
Nothing here decides what runs in the cluster: the bundle goes back to the control plane.
"""
