"""Runs real Kubernetes clusters on one machine, without containers or root.

The programs are built once, and a cluster starts in seconds. The package is independent of the
rest of Towline.
"""
