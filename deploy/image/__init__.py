"""Builds the image of deploy/Containerfile as an OCI archive, without an engine or any rights.

Debian's packages are opened, not installed: nothing of them runs while it is built, so that any
machine builds for every architecture. Nothing of the product is imported here.
"""
