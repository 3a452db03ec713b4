"""Builds the image of deploy/Containerfile as an OCI archive, without an engine or privileges.

Debian's packages are extracted, not installed: none of their code runs, so that any machine can
build for every architecture. The package imports no product code.
"""
