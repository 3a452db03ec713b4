"""Decisions of the cluster itself: permitted objects, trusted bundles, and services of its own.
The control plane cannot widen them.
"""
