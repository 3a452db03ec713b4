"""Registries of images as a client: the OCI distribution API, and signing in to it.

What may not live here: which tag counts, when it is looked for, and what then happens.
"""
