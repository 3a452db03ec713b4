"""Renders files to objects in worker processes, which can be killed at any time.

A worker has no network, git or clock: it gets bytes and returns bytes.
"""
