"""Secrets at rest: envelope encryption, and sources of the key.

Plain text leaves this package only to the operation that requested it.
"""
