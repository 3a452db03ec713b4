"""Support for demo and tests: local clusters, a Git server, the demo's steps.

Production code must not import this package.
"""
