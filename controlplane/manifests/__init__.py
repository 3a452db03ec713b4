"""Manifests: resources of all kinds as documents, applied together.

A kind and its operations belong to its noun: here is nothing that only one kind needs.
"""
