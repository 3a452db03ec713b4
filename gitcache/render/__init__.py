"""Renderers, and the worker processes that run them, which can be killed at any time.

A worker has no network, git or clock: it gets bytes and returns bytes.
"""
